// Closed lists of what a target may be called, so that no text of a spec becomes part of a command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace llmc::spec {

/// A device name and the bytes that a run may plan with on it: its memory less what driver and libraries take.
struct DeviceMemory {
  const char* name;
  std::int64_t budget;
  const char* arch;  // compute capability, as sm_NN
};

/// Of gpus.h, each under both names. The last one is the example of messages.
const std::vector<DeviceMemory>& device_memories();

/// Whether the device runs what is compiled for `arch`: "90a" and "90" are both of an H100.
bool is_of(const DeviceMemory& device, const std::string& arch);

std::optional<std::int64_t> device_budget(const std::string& name);

/// The arch to compile for on devices of a compute capability: "90a" for "90", since only code for that has the
/// products of warpgroups; "89" for "89".
std::string arch_of_capability(const std::string& capability);

/// The budget of the smallest device with one of these compute capabilities; 16 GiB where the table has none.
std::int64_t default_budget(const std::vector<std::string>& archs);

/// g++ -march names of x86-64, "native" included.
const std::vector<std::string>& cpu_architectures();

/// Those of them whose processors have AMX's tiles of bf16.
const std::vector<std::string>& architectures_with_tiles();

/// Compute capabilities as nvcc's sm_NN: "80", "90a", "100", ...
const std::vector<std::string>& cuda_architectures();

}  // namespace llmc::spec
