// `trainer calibrate`: how fast this device runs what steps are made of. `llmc calibrate` makes a device file of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "program/program.h"

namespace llmc {

struct CalibrateCommand {
  double seconds = 20;              // after which no round of all measurements begins; the first is always whole
  std::vector<std::int64_t> sizes;  // of products; empty: as the device's kind has them
  bool attention_only = false;
  std::filesystem::path out;  // where the figures go as JSON; empty: nowhere
  int device = 0;
  int threads = 0;  // as Device has them
};

/// Measures, in rounds that take turns, and prints medians:
///   products   m, n and k each of `sizes`, with the transposes of a forward product, of the gradient of its input and
///              of its weight, in the run's compute type, on a left operand that stays and others that no cache holds
///   copies     within the device, by bytes read and written
///   launch     from one small kernel to the next
///   attention  forward and backward, at the run's head_dim and sequence
///   kernels    all others of a layer, in their order; and the optimizer's step: bytes a second
/// Throws Failure(does_not_fit) where the device has no memory for the run's arena or 256 MiB beside it.
void calibrate(const CalibrateCommand& command, const Program& program);

inline constexpr char kCalibrationFormat[] = "llmc-calibration-1";

}  // namespace llmc
