// Computes MFU and the product share of a run's devices.
#pragma once

#include <optional>
#include <string_view>

#include "program/dtype.h"

namespace llmc {

/// Dense peak of one device in FLOP/s from its data sheet, for GEMMs with operands of `compute`, or of fp32 read as
/// tf32, and fp32 accumulation. `device`: as Device::description() begins, "NVIDIA H200 (sm_90), ...". Nothing if
/// unknown: a CPU, or a part of a GPU.
std::optional<double> peak_flops(std::string_view device, DType compute, bool tf32 = false);

/// Model FLOPs utilisation: FLOPs of the model (causal attention counts half) over the peak of all devices.
double utilisation(double flops_per_token, double tokens_per_second, int devices, double peak);

/// Peak rates that metrics relate a run's speed to.
struct Peaks {
  double flops_per_token;
  int devices;
  std::optional<double> device;    // FLOP/s of one device by its data sheet, if known
  std::optional<double> products;  // FLOP/s of all devices' GEMMs, if measured

  std::optional<double> mfu(double tokens_per_second) const {
    return device ? std::optional(utilisation(flops_per_token, tokens_per_second, devices, *device)) : std::nullopt;
  }
  std::optional<double> product_share(double tokens_per_second) const {
    return products ? std::optional(utilisation(flops_per_token, tokens_per_second, 1, *products)) : std::nullopt;
  }
};

}  // namespace llmc
