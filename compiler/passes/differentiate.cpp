#include "compiler/ops/backward.h"
#include "compiler/passes/passes.h"

namespace llmc::passes {

using namespace graph;

Graph differentiate(Graph graph, const spec::Spec&) {
  const std::vector<Region> forward = graph.regions;
  ops::Backward backward(graph);
  for (auto region = forward.rbegin(); region != forward.rend(); ++region)
    graph.regions.push_back(backward.reverse(*region));
  return graph;
}

}  // namespace llmc::passes
