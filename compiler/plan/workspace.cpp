#include "compiler/plan/workspace.h"

#include "compiler/plan/attention.h"

namespace llmc::plan {

using namespace graph;

namespace {

std::int64_t round_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace

void size_workspaces(Graph& graph, const ParameterLayout& parameters, const spec::Spec& spec) {
  for (const Region& region : graph.regions)
    for (const Op& op : region.ops) {
      if (op.kind == OpKind::attention_backward) {
        Tensor& workspace = graph.at(op.outputs[1]);
        if (spec.target.kind == spec::TargetKind::cuda) {
          const std::size_t bytes = backward_workspace_bytes(graph, spec, choose_attention(graph, spec).backward);
          workspace.cols = workspace.pitch = static_cast<std::int64_t>(bytes) / bytes_of(DType::f32, 1);
        } else {
          // templates/cpu/attention_backward*.cpp: fp32 sums of dk and dv of each key head, in whole tiles.
          workspace.rows = 2 * graph.batch * graph.kv_heads * round_up(graph.sequence, 64);
          workspace.cols = workspace.pitch = round_up(graph.head_dim, 32);
        }
      }
      if (op.kind == OpKind::gradient_norm || op.kind == OpKind::adamw)
        for (TensorId id : op.outputs) graph.at(id).cols = graph.at(id).pitch = parameters.chunk_count;
    }
}

}  // namespace llmc::plan
