#include "compiler/plan/workspace.h"

namespace llmc::plan {

using namespace graph;

void size_workspaces(Graph& graph, const ParameterLayout& parameters, const spec::Spec& spec) {
  for (const Region& region : graph.regions)
    for (const Op& op : region.ops) {
      if (op.kind == OpKind::attention_backward) {
        Tensor& workspace = graph.at(op.outputs[1]);
        // One fp32 row of dq and one dot(dout, out) for each query of each head.
        workspace.rows = graph.batch * graph.heads * graph.sequence;
        workspace.cols = workspace.pitch = graph.head_dim + 1;
      }
      if (op.kind == OpKind::gradient_norm || op.kind == OpKind::adamw)
        for (TensorId id : op.outputs) graph.at(id).cols = graph.at(id).pitch = parameters.chunk_count;
    }
  (void)spec;
}

}  // namespace llmc::plan
