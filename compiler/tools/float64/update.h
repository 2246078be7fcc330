// Declares what the rules of all optimizers' updates have alike.
#pragma once

#include <span>
#include <vector>

#include "compiler/tools/float64/value.h"
#include "device/types.h"

namespace llmc::verify {

/// The chunks of an input of records.
std::span<const Chunk> chunks_of(const Run& run, std::size_t input);

/// One element of an update: what it reads, and what a rule writes.
struct Element {
  double lr, weight_decay, gradient;  // the gradient is clipped
  unsigned updates;                   // this one included
  double& weight;
  std::span<double* const> state;
  // How far a kernel may be from each, in fp32's rounding.
  double& weight_scale;
  std::span<double* const> state_scales;
};

/// Calls `formula(element)` for each element of the chunks, and writes copies and sums that the op asks for; a skipped
/// step leaves its results undefined.
void update(Run& run, void (*formula)(Element& element, const void* record));

}  // namespace llmc::verify
