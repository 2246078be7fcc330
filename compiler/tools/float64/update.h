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

/// A number that the optimizer keeps of each element of the parameters, from OpRun::state_begin on, and its bounds.
struct StateNumbers {
  double *numbers, *scales;
};

using UpdateFormula = void (*)(UpdateElement& element, const void* record);

/// Calls `formula(element)` for each element of the chunks, with the op's state, and writes its copies and sums. A
/// skipped step leaves its results undefined.
void update(OpRun& run, UpdateFormula formula);

/// Does the same with `state` in place of the op's, whose inputs it leaves alone. Returns false for a skipped step.
bool update(OpRun& run, std::span<const StateNumbers> state, UpdateFormula formula);

/// The formula of AdamW. State: both moments.
void adamw_formula(UpdateElement& element, const void* record);

}  // namespace llmc::float64
