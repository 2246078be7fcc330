#include "compiler/plan/attention.h"

#include <fmt/format.h>

#include <algorithm>

#include "error.h"

namespace llmc::plan {

using namespace graph;

namespace {

using Refusal = std::string (*)(const AttentionShape& shape, DType compute, int capability);

/// What `refusal` says of the first architecture that it refuses; empty if of none.
std::string first_refusal(Refusal refusal, const AttentionShape& shape, const spec::Spec& spec) {
  for (const std::string& arch : spec.target.arch) {
    const std::string why = refusal(shape, spec.compute, std::stoi(arch));
    if (!why.empty()) return why;
  }
  return "";
}

// Rates of a Hopper GPU. cuDNN's five products of the reference run, 11.0 TFLOP a step, take 38 ms with atomics; without
// them it writes the gradient of every score and reads it again, at the copy rate of an H200, the faster one. The own
// passes: 7 products in 62 ms, which docs/benchmarks.md holds against the count of their instructions; one row tile, as
// heads wider than 64 have, is bound by shared memory at 8 clocks for 6.4. None of them was measured here.
constexpr double kCudnnFlops = 289e12, kCopyBytes = 4.5e12, kOwnFlops = 250e12, kOwnWideFlops = kOwnFlops * 6.36 / 8;

/// Predicted ms of a layer's backward pass.
double backward_ms(const AttentionShape& s, AttentionBy by) {
  const double scores = static_cast<double>(s.batch * s.heads) * static_cast<double>(s.sequence * s.sequence);
  const double product = scores * static_cast<double>(s.head_dim);  // causal: half of the square
  if (by == AttentionBy::cudnn) return 1e3 * (5 * product / kCudnnFlops + 2 * 2 * scores / kCopyBytes);
  return 1e3 * 7 * product / (s.head_dim <= 64 ? kOwnFlops : kOwnWideFlops);
}

std::size_t backward_workspace_bytes(const AttentionShape& s, AttentionBy by) {
  if (by == AttentionBy::cudnn) return attention_workspace_bytes(s);
  // templates/cuda/attention_backward_queries.cu: delta, fp32, one a query and head.
  return static_cast<std::size_t>(s.batch * s.heads * s.sequence) * 4;
}

bool is_hopper(const std::string& arch) { return std::stoi(arch) / 10 == 9; }

}  // namespace

AttentionShape attention_shape(const Graph& graph, const spec::Spec& spec) {
  for (const Region& region : graph.regions)
    for (const Op& op : region.ops)
      if (op.kind == OpKind::attention)
        return {graph.batch, graph.sequence, op.heads.query, op.heads.key, op.heads.dim, graph.at(op.inputs[0]).pitch,
                graph.at(op.outputs[0]).pitch, spec.deterministic};
  throw Failure(Exit::internal, "the graph has no attention");
}

AttentionChoice choose_attention(const Graph& graph, const spec::Spec& spec) {
  const AttentionShape shape = attention_shape(graph, spec);
  const spec::AttentionKind kind = spec.target.attention;
  const std::string cudnn = kind == spec::AttentionKind::portable ? "" : first_refusal(attention_refusal, shape, spec);
  if (kind == spec::AttentionKind::cudnn && !cudnn.empty()) throw Failure(Exit::spec, cudnn);
  AttentionChoice choice = {AttentionBy::cudnn, AttentionBy::cudnn, backward_workspace_bytes(shape, AttentionBy::cudnn), {}};
  if (kind == spec::AttentionKind::cudnn) return choice;
  if (kind == spec::AttentionKind::automatic && cudnn.empty()) {
    if (!spec.deterministic) return choice;
    const bool known = std::all_of(spec.target.arch.begin(), spec.target.arch.end(), is_hopper);
    for (const AttentionBy by : {AttentionBy::cudnn, AttentionBy::portable})
      choice.candidates.push_back({by, known ? backward_ms(shape, by) : 0, backward_workspace_bytes(shape, by)});
    if (choice.candidates[1].ms < choice.candidates[0].ms) {
      choice.backward = AttentionBy::portable;
      choice.workspace = choice.candidates[1].workspace_bytes;
    }
    return choice;
  }
  const std::string portable = first_refusal(portable_attention_refusal, shape, spec);
  if (!portable.empty()) throw Failure(Exit::spec, portable);
  // The biases of q, k and v lie in one vector, and kernels take each of them 16 bytes at a time.
  const std::int64_t q = shape.heads * shape.head_dim, k = shape.kv_heads * shape.head_dim;
  if (spec.model.attention_bias && (q % 8 != 0 || k % 8 != 0))
    throw Failure(Exit::spec, fmt::format("with model.attention_bias, q and k on CUDA have multiples of 8 columns; here they "
                                          "have {} and {}; write a model.head_dim that is a multiple of 8, or "
                                          "attention_bias: false", q, k));
  return {AttentionBy::portable, AttentionBy::portable, backward_workspace_bytes(shape, AttentionBy::portable), {}};
}

}  // namespace llmc::plan
