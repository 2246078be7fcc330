// GPUs by name: what the driver calls them, the memory that a run may plan with, and the peaks of their data sheets.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace llmc::spec {

struct Gpu {
  const char* name;     // in memory.budget and target.device; empty where there is no device file of it
  const char* also;     // another name; may be empty
  const char* arch;     // compute capability, as sm_NN
  const char* reports;  // what the driver calls it; without a name: how that begins
  std::int64_t budget;  // bytes; 0 where there is no name
  double bf16, fp32;    // FLOP/s: dense tensor cores; multiply-adds outside of them
};

const std::vector<Gpu>& gpus();

/// The GPU that the driver calls `device`; null where it is not known, and for a part of a GPU.
const Gpu* gpu_that_reports(std::string_view device);

}  // namespace llmc::spec
