// Closed lists of target names, so that no text of a spec becomes part of a command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace llmc::spec {

/// A device name and its budget in bytes: its memory minus that of driver and libraries.
struct DeviceMemory {
  const char* name;
  std::int64_t budget;
  const char* arch;  // compute capability, as in sm_NN
};

/// Devices of gpus.h, each under both names. The last one is the example in messages.
const std::vector<DeviceMemory>& device_memories();

/// Returns whether the device runs code compiled for `arch`: an H100 runs "90a" and "90".
bool is_of(const DeviceMemory& device, const std::string& arch);

std::optional<std::int64_t> device_budget(const std::string& name);

/// Arch to compile for on devices of a compute capability: "90a" for "90", because only it has warpgroup products; "89"
/// for "89".
std::string arch_of_capability(const std::string& capability);

/// Budget of the smallest device with one of these compute capabilities; 16 GiB if the table has none.
std::int64_t default_budget(const std::vector<std::string>& archs);

/// GPU memory that the default budget of several ranks leaves to NCCL.
inline constexpr std::int64_t kMemoryOfNccl = std::int64_t{1} << 30;

/// g++ -march names of x86-64, "native" included.
const std::vector<std::string>& cpu_architectures();

/// Those of them whose processors have AMX bf16 tiles.
const std::vector<std::string>& architectures_with_tiles();

/// Compute capabilities as nvcc's sm_NN: "80", "90a", "100", ...
const std::vector<std::string>& cuda_architectures();

struct Spec;
struct Target;
enum class Matmul;

/// How products of codes in 8 bits run on an arch: in hardware, as bf16 products of the numbers that the codes stand
/// for, or not at all, since the hardware has fp8 products of other scales.
enum class CodeProducts { hardware, emulated, none };
/// Same with the scales of `matmul`: one a tensor with fp8_tensor, one a block with mxfp8, else one a row. Operands of
/// mxfp8 lie across the sum in the backward pass, which of the archs with such scales 120 does not take.
CodeProducts code_products(Matmul matmul, const std::string& cuda_arch);

/// Whether such products run in hardware on all archs of the target.
bool has_code_products(Matmul matmul, const Target& target);

/// Whether the layers' products are of codes: precision.matmul has them, and the target's hardware.
bool multiplies_codes(const Spec& spec);

/// Number of which the rows of a chunk of logits are a multiple, if there are several chunks: cuBLASLt takes scales of
/// rows from addresses that are multiples of 16 bytes.
std::int64_t chunk_multiple(const Spec& spec);

/// Whether such a run can be planned and not compiled: no device has yet run llmc's products of codes with a scale a
/// block.
bool is_planned_only(const Spec& spec);

}  // namespace llmc::spec
