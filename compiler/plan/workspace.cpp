#include "compiler/plan/workspace.h"

namespace llmc::plan {

using namespace graph;

namespace {

std::int64_t round_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace

void size_workspaces(Plan& plan) {
  Graph& graph = plan.graph;
  for (const Region& region : graph.regions)
    for (const Op& op : region.ops) {
      if (op.kind == OpKind::attention_backward) {
        Tensor& workspace = graph.at(op.outputs[1]);
        if (plan.spec.target.kind == spec::TargetKind::cuda) {
          const auto bytes = static_cast<std::int64_t>(plan.attention.workspace_bytes());
          workspace.cols = workspace.pitch = bytes / size_of(Dtype::f32);
        } else {
          // templates/cpu/attention_backward*.cpp: fp32 sums of dk and dv of each key head, in whole tiles.
          workspace.rows = 2 * graph.batch * graph.kv_heads * round_up(graph.sequence, 64);
          workspace.cols = workspace.pitch = round_up(graph.head_dim, 32);
        }
      }
      if (op.kind == OpKind::gradient_norm || op.kind == OpKind::adamw)
        for (TensorId id : op.outputs) graph.at(id).cols = graph.at(id).pitch = plan.parameters.chunk_count;
    }
}

}  // namespace llmc::plan
