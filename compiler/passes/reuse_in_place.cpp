#include "compiler/ops/op.h"
#include "compiler/passes/passes.h"

namespace llmc::passes {

using namespace graph;

Graph reuse_in_place(Graph graph, const spec::Spec&) {
  for (Region& region : graph.regions)
    for (Op& op : region.ops)
      if (const TensorId over = ops::row_of(op.kind).overwrites(op); over != kNone)
        graph.at(op.outputs[0]).storage = over;
  return graph;
}

}  // namespace llmc::passes
