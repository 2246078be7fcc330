// Table of GPUs: the driver's names, the memory that a run may plan with, and peak rates from their data sheets.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace llmc::spec {

struct Gpu {
  const char* name;     // in memory.budget and target.device; empty without a device file
  const char* also;     // alternative name; may be empty
  const char* arch;     // compute capability, as in sm_NN
  const char* reports;  // the driver's name; if `name` is empty, its beginning
  std::int64_t budget;  // bytes; 0 if `name` is empty
  double bf16, fp32;    // FLOP/s: dense tensor cores; multiply-adds outside of them

  double tf32() const { return bf16 / 2; }  // of all tensor cores that have both
};

const std::vector<Gpu>& gpus();

/// GPU with the driver's name `device`; null if unknown, and for a part of a GPU.
const Gpu* gpu_that_reports(std::string_view device);

}  // namespace llmc::spec
