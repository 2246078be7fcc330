// Which share of its devices' speed a run uses.
#pragma once

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

/// Peaks that metrics relate the speed of a run to.
struct Peaks {
  double flops_per_token;
  int devices;
  std::optional<double> device;    // FLOP/s of one by its data sheet, where that is known
  std::optional<double> products;  // FLOP/s of all devices' matrix products, where that was measured

  std::optional<double> mfu(double tokens_per_second) const {
    return device ? std::optional(utilisation(flops_per_token, tokens_per_second, devices, *device)) : std::nullopt;
  }
  std::optional<double> product_share(double tokens_per_second) const {
    return products ? std::optional(utilisation(flops_per_token, tokens_per_second, 1, *products)) : std::nullopt;
  }
};

}  // namespace llmc
