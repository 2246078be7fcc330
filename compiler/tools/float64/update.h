// Declares the common part of the rules of all optimizers' updates.
#pragma once

#include <span>
#include <vector>

#include "compiler/tools/float64/value.h"
#include "device/types.h"

namespace llmc::float64 {

/// Returns the chunks of an input of records.
std::span<const Chunk> chunks_of(const OpRun& run, std::size_t input);

/// One element of an update: inputs of a rule, and its results.
struct UpdateElement {
  double lr, weight_decay, gradient;  // the gradient is clipped
  unsigned updates;                   // this one included
  double& weight;
  std::span<double* const> state;
  // Bounds of a kernel's error in each, in units of fp32's rounding.
  double& weight_scale;
  std::span<double* const> state_scales;
};

/// Calls `formula(element)` for each element of the chunks, and writes the op's copies and sums. A skipped step leaves
/// its results undefined.
void update(OpRun& run, void (*formula)(UpdateElement& element, const void* record));

}  // namespace llmc::float64
