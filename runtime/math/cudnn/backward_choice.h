// Chooses the backward pass of attention among those that a trainer contains.
#pragma once

#include <string>

#include "math/attention.h"
#include "math/cublaslt/library.h"

namespace llmc {

/// Key of a backward pass in tuned.json: everything that its time depends on except device and library.
std::string attention_key(const AttentionShape& shape);

/// "cuDNN 9.19.0", or "llmc's kernels".
std::string backward_name(AttentionBy by);

struct ChosenBackward {
  const BackwardWay* way;  // one of the plan's
  std::string why;         // for the log
};

/// Variant that `trainer tune` measured to be faster on this device, else the plan's first; llmc's if this release of
/// cuDNN must not compute it.
ChosenBackward choose_backward(const MathLibrary::Impl& library, const AttentionPlan& plan);

}  // namespace llmc
