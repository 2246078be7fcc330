// An interpreter of the graph: each op computed in float64 from its formula, by none of the templates.
#pragma once

#include "compiler/verify/value.h"

namespace llmc::verify {

/// A set of an op's inputs.
using Inputs = unsigned;

/// Writes the outputs of `run`, and the inputs that changed_inputs() names. Throws Failure(internal) for what moves
/// between ranks: with one rank nothing moves.
void interpret(Run& run);

/// The inputs that the op writes over.
Inputs changed_inputs(graph::OpKind kind);

}  // namespace llmc::verify
