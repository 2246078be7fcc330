// Checks that a graph is well formed, as every pass must leave it.
#pragma once

#include <string>

#include "compiler/graph/graph.h"

namespace llmc::passes {

/// Throws Failure(internal) that names the pass, the region and the op. Errors: wrong number or shapes of operands; a
/// tensor read before it is written or after it is overwritten; a forward tensor that the backward pass reads but that
/// is not kept; a parameter whose gradient nothing writes.
void check_graph(const graph::Graph& graph, const std::string& after_pass);

}  // namespace llmc::passes
