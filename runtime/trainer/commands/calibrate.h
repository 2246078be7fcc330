// `trainer calibrate`: measures this device's speed at the parts of a step. `llmc calibrate` turns it into a device
// file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "math/gemm_shape.h"
#include "program/program.h"

namespace llmc {

struct CalibrateCommand {
  double seconds = 20;              // no round of measurements starts after this; the first round is always completed
  std::vector<std::int64_t> sizes;  // of GEMMs; empty: those of the device's kind
  bool attention_only = false;
  std::filesystem::path out;  // JSON file for the figures; empty: none
  int device = 0;
  int threads = 0;  // as in Device
};

/// Transpositions of a linear layer's forward product, input gradient or weight gradient.
struct GemmForm {
  const char* name;
  bool transpose_a, transpose_b;
};

/// The GEMM of a form and size that is timed. `tiles`: trainers of this target have GEMMs of this form in AMX tiles; as
/// there, one that does not fit is left to oneDNN.
GemmShape timed_shape(const GemmForm& form, std::int64_t m, std::int64_t n, std::int64_t k, DType compute, bool tiles);

/// Measures in alternating rounds and prints medians:
///   products   GEMMs with m, n and k each of `sizes`, transposed as a forward product, its input gradient and its
///              weight gradient are, in the run's compute type; one left operand is reused, the others are in no cache
///   copies     within the device, by bytes read and written
///   launch     from one small kernel to the next
///   attention  forward and backward, at the run's head_dim and sequence length
///   kernels    all others of a layer, in order, and the optimizer's step: bytes per second
/// Throws Failure(does_not_fit) if the device has no memory for the run's arena or another 256 MiB.
void calibrate(const CalibrateCommand& command, const Program& program);

}  // namespace llmc
