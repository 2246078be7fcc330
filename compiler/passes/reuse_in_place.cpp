#include "compiler/passes/passes.h"

namespace llmc::passes {

using namespace graph;

Graph reuse_in_place(Graph graph, const spec::Spec&) {
  for (Region& region : graph.regions)
    for (Op& op : region.ops) {
      TensorId over = kNone;
      if (op.kind == OpKind::rope || op.kind == OpKind::rope_backward) over = op.inputs[0];
      // The stream's gradient is one buffer from the loss down to the embedding.
      if (op.kind == OpKind::rms_norm_backward && op.residual) over = op.inputs.back();
      if (over != kNone) graph.at(op.outputs[0]).storage = over;
    }
  return graph;
}

}  // namespace llmc::passes
