// An interpreter of the graph: each op computed in float64 from its formula, by none of the templates.
#pragma once

#include "compiler/tools/float64/value.h"

namespace llmc::verify {

/// Writes the outputs of `run`, and the inputs that its row says it changes (ops::Row::changes). Throws
/// Failure(internal) for what moves between ranks: with one rank nothing moves.
void interpret(Run& run);

}  // namespace llmc::verify
