// What a run uses of its machine: peaks that are known, and the process's memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "program/dtype.h"

namespace llmc {

/// Dense peak of one device in FLOP/s, for matrix products whose operands are `compute` and whose sums are fp32, by the
/// data sheet. `device`: as Device::description() begins, "NVIDIA H200 (sm_90), ...". Nothing where it is not known: a
/// processor, or a part of a GPU.
std::optional<double> peak_flops(std::string_view device, DType compute);

/// Model FLOPs utilisation: FLOPs of the model (causal attention counted as half) over the peak of all devices.
double utilisation(double flops_per_token, double tokens_per_second, int devices, double peak);

/// Bytes of this process that are in the machine's memory; 0 where that cannot be read.
std::int64_t resident_bytes();

}  // namespace llmc
