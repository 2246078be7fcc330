// Declares the formula of each kind of op in float64, as plain loops.
#pragma once

#include "compiler/graph/op_kinds.h"
#include "compiler/tools/float64/value.h"

namespace llmc::float64 {

#define LLMC_RULE(kind, row) void kind(OpRun& run);
LLMC_COMPUTED_OPS(LLMC_RULE)
#undef LLMC_RULE

/// Computes an op with quantised results (Op::quantised) by the rule of its kind.
void quantised(OpRun& run, void (*rule)(OpRun&));

}  // namespace llmc::float64
