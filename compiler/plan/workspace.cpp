#include "compiler/plan/workspace.h"

#include <fmt/format.h>

#include "error.h"
#include "math/attention.h"

namespace llmc::plan {

using namespace graph;

namespace {

std::int64_t round_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

using Refusal = std::string (*)(const AttentionShape& shape, DType compute, int capability);

/// What `refusal` says of the first architecture that it refuses; empty if of none.
std::string first_refusal(Refusal refusal, const AttentionShape& shape, const spec::Spec& spec) {
  for (const std::string& arch : spec.target.arch) {
    const std::string why = refusal(shape, spec.compute == spec::Dtype::bf16 ? DType::bf16 : DType::f32, std::stoi(arch));
    if (!why.empty()) return why;
  }
  return "";
}

}  // namespace

AttentionShape attention_shape(const Graph& graph, const spec::Spec& spec) {
  return {graph.batch,    graph.sequence, graph.heads, graph.kv_heads, graph.head_dim, graph.at(graph.find("qkv")).pitch,
          graph.at(graph.find("attention_out")).pitch, spec.deterministic};
}

bool portable_attention(const Graph& graph, const spec::Spec& spec) {
  const AttentionShape shape = attention_shape(graph, spec);
  const spec::AttentionKind kind = spec.target.attention;
  const std::string cudnn =
      kind == spec::AttentionKind::portable ? "" : first_refusal(attention_refusal, shape, spec);
  if (kind == spec::AttentionKind::cudnn && !cudnn.empty()) throw Failure(Exit::spec, cudnn);
  if (kind == spec::AttentionKind::cudnn || (kind == spec::AttentionKind::automatic && cudnn.empty())) return false;
  const std::string portable = first_refusal(portable_attention_refusal, shape, spec);
  if (!portable.empty()) throw Failure(Exit::spec, portable);
  // The biases of q, k and v lie in one vector, and kernels take each of them 16 bytes at a time.
  const std::int64_t q = shape.heads * shape.head_dim, k = shape.kv_heads * shape.head_dim;
  if (spec.model.attention_bias && (q % 8 != 0 || k % 8 != 0))
    throw Failure(Exit::spec, fmt::format("with model.attention_bias, q and k on CUDA have multiples of 8 columns; here they "
                                          "have {} and {}; write a model.head_dim that is a multiple of 8, or "
                                          "attention_bias: false", q, k));
  return true;
}

void size_workspaces(Graph& graph, const ParameterLayout& parameters, const spec::Spec& spec) {
  for (const Region& region : graph.regions)
    for (const Op& op : region.ops) {
      if (op.kind == OpKind::attention_backward) {
        Tensor& workspace = graph.at(op.outputs[1]);
        if (spec.target.kind == spec::TargetKind::cuda) {
          // templates/cuda/attention_backward_queries.cu: delta, fp32, one a query and head.
          workspace.cols = workspace.pitch =
              portable_attention(graph, spec)
                  ? graph.batch * graph.heads * graph.sequence
                  : static_cast<std::int64_t>(attention_workspace_bytes(attention_shape(graph, spec))) / size_of(Dtype::f32);
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
