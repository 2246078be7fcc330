// Interprets the graph: computes each op in float64 from its formula, without the templates.
#pragma once

#include "compiler/tools/float64/value.h"

namespace llmc::float64 {

/// Computes the op of `run`: writes its outputs, and the inputs that the op changes in place (ops::OpRow::changes).
/// Throws Failure(internal) for ops between ranks, because the run has one rank.
void interpret(OpRun& run);

}  // namespace llmc::float64
