// Automatic differentiation on the graph: one row of a table for each kind of forward op.
#pragma once

#include "compiler/graph/graph.h"

namespace llmc::graph {

/// Appends the backward regions (head_backward, layer_backward, embed_backward). The gradient of tensor `t` is named `d_t`;
/// a tensor with two uses gets the sum of both by an explicit add. Parameter gradients accumulate: their ops add to what
/// an earlier micro-batch left. Throws Failure(internal) for an op without a row.
Graph differentiate(Graph graph);

}  // namespace llmc::graph
