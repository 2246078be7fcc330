// Prints a graph, with the attributes of each op as its file prints them.
#pragma once

#include <string>

#include "compiler/graph/graph.h"

namespace llmc::ops {

/// Returns the stable text form, one line per tensor and one line per op; --dump-ir writes it and tests compare it.
std::string to_text(const graph::Graph& graph);
std::string to_text(const graph::Graph& graph, const graph::Op& op);

}  // namespace llmc::ops
