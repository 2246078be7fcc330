// Prints a graph, with each op's attributes as the file of the op has them.
#pragma once

#include <string>

#include "compiler/graph/graph.h"

namespace llmc::ops {

/// Stable text form, one line a tensor and one line an op; what --dump-ir writes and tests compare.
std::string to_text(const graph::Graph& graph);
std::string to_text(const graph::Graph& graph, const graph::Op& op);

}  // namespace llmc::ops
