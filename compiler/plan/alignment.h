// Computes the alignment of a matrix product's operands, which decides its algorithm on CUDA.
#pragma once

#include "compiler/plan/plan.h"

namespace llmc::plan {

/// Lowers the alignments of `shape` to those of the operands of `launch`, one call of this product: in bytes, valid in
/// every layer, loss chunk and micro-batch, and for any number of ranks. `plan` must have its layout.
void lower_alignment(const Plan& plan, const Launch& launch, GemmShape& shape);

}  // namespace llmc::plan
