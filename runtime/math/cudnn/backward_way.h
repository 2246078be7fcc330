// Which of the backward passes that a trainer carries its attention takes.
#pragma once

#include <string>

#include "math/attention.h"
#include "math/cublaslt/library.h"

namespace llmc {

/// What tuned.json finds a backward pass by: everything that its time depends on but the device and the library.
std::string attention_key(const AttentionShape& shape);

/// "cuDNN 9.19.0", or "llmc's kernels".
std::string backward_name(AttentionBy by);

struct ChosenBackward {
  const BackwardWay* way;  // of the plan's
  std::string why;         // for the log
};

/// The way that `trainer tune` has measured to be faster here, else the plan's first.
ChosenBackward choose_backward(const MathLibrary::Impl& library, const AttentionPlan& plan);

}  // namespace llmc
