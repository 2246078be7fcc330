// Converts the figures that `trainer calibrate` writes into a device file.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/devices/device.h"

namespace llmc::calibration {

/// A part of a step, timed alone.
struct Timed {
  double seconds = 0, flops = 0, bytes = 0, launches = 0;
};

/// The file that one `trainer calibrate -o FILE` has written.
struct Figures {
  spec::TargetKind kind = spec::TargetKind::cpu;
  std::string device, date;  // as the trainer describes the device; 2026-11-24
  int threads = 0;
  DType precision = DType::f32;
  std::int64_t head_dim = 0, sequence = 0;
  double spread = 0;          // half of the samples are within this fraction of their median
  std::vector<double> sizes;  // of products; empty: attention alone was measured
  std::array<std::vector<double>, devices::kForms> products;  // FLOP/s by m, then n, then k
  std::optional<std::pair<double, double>> product_fp8;       // size, FLOP/s of the three forms together
  std::vector<std::pair<double, double>> copies;              // bytes read and written, bytes/s
  double launch = 0;                                          // seconds
  Timed attention_forward, attention_backward;
  std::optional<Timed> kernels, optimizer;
};

/// Parses figures; messages call the file `name`. Throws Failure(usage) if the text has another form, or if a figure in
/// it is one that no trainer measures.
Figures read_figures(const std::string& text, const std::string& name);

/// Replaces figures of `base` by the measured ones. Each one's source begins with "measured by llmc
/// calibrate". Figures that were not measured stay with their source. Exception: a precision or a head_dim without
/// figures takes those of the other, and its source says so. Throws Failure(usage) if the list is of several devices,
/// or lacks products, copies and launches of every precision.
devices::Device apply(const std::vector<Figures>& all, devices::Device base);

}  // namespace llmc::calibration
