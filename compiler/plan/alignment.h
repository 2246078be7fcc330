// How far the addresses of a matrix product's operands are aligned, which decides its algorithm on CUDA.
#pragma once

#include "compiler/plan/plan.h"

namespace llmc::plan {

/// Lowers the alignments of `shape` to what the addresses of the operands of `launch`, one of its calls, are multiples
/// of in every layer, loss chunk and micro-batch, whatever the number of ranks. The plan has its layout.
void lower_alignment(const Plan& plan, const Launch& launch, GemmShape& shape);

}  // namespace llmc::plan
