// Looks up tensors and regions by their names in dumps, which the compiler itself never does.
#pragma once

#include <stdexcept>
#include <string>

#include "compiler/graph/graph.h"

namespace llmc::graph {

inline TensorId find(const Graph& graph, const std::string& name) {
  for (std::size_t i = 0; i < graph.tensors.size(); ++i)
    if (graph.tensors[i].name == name) return static_cast<TensorId>(i);
  return kNone;
}

inline Region& region(Graph& graph, const std::string& name) {
  for (Region& r : graph.regions)
    if (r.name == name) return r;
  throw std::runtime_error("no region " + name);
}

}  // namespace llmc::graph
