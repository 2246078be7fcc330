#include "compiler/ops/attention_choice.h"

#include <algorithm>

#include "error.h"

namespace llmc::ops {

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

// Rates of a Hopper GPU. cuDNN's five products of the reference run, 11.0 TFLOP a step, take 38 ms with atomics;
// without them it writes the gradient of every score and reads it again, at the copy rate of an H200, the faster one.
// The own passes: 7 products in 62 ms, which docs/benchmarks.md holds against the count of their instructions; one row
// tile, as heads wider than 64 have, is bound by shared memory at 8 clocks for 6.4. None of them was measured here.
constexpr double kCudnnFlops = 289e12, kCopyBytes = 4.5e12, kOwnFlops = 250e12, kOwnWideFlops = kOwnFlops * 6.36 / 8;

/// Predicted ms of a layer's backward pass.
double backward_ms(const AttentionShape& s, AttentionBy by) {
  const double scores = static_cast<double>(s.batch * s.heads) * static_cast<double>(s.sequence * s.sequence);
  const double product = scores * static_cast<double>(s.head_dim);  // causal: half of the square
  const double score_bytes = s.deterministic ? 2 * 2 * scores : 0;  // written and read
  if (by == AttentionBy::cudnn) return 1e3 * (5 * product / kCudnnFlops + score_bytes / kCopyBytes);
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
        return {graph.batch,
                graph.sequence,
                op.heads.query,
                op.heads.key,
                op.heads.dim,
                graph.at(op.inputs[0]).pitch,
                graph.at(op.outputs[0]).pitch,
                spec.deterministic};
  throw Failure(Exit::internal, "the graph has no attention");
}

bool AttentionChoice::leave_out_largest() {
  if (backward.size() < 2) return false;
  const auto largest = std::max_element(
      backward.begin(), backward.end(),
      [](const BackwardWay& a, const BackwardWay& b) { return a.workspace_bytes < b.workspace_bytes; });
  left_out.push_back(*largest);
  backward.erase(largest);
  return true;
}

AttentionChoice choose_attention(const Graph& graph, const spec::Spec& spec) {
  const AttentionShape shape = attention_shape(graph, spec);
  const spec::AttentionKind kind = spec.target.attention;
  const std::string cudnn = kind == spec::AttentionKind::portable ? "" : first_refusal(attention_refusal, shape, spec);
  if (kind == spec::AttentionKind::cudnn && !cudnn.empty()) throw Failure(Exit::spec, cudnn);
  const bool known = std::all_of(spec.target.arch.begin(), spec.target.arch.end(), is_hopper);
  const auto way = [&](AttentionBy by) {
    return BackwardWay{by, known ? backward_ms(shape, by) : 0, backward_workspace_bytes(shape, by)};
  };
  const bool automatic = kind == spec::AttentionKind::automatic;
  if (kind == spec::AttentionKind::cudnn || (automatic && cudnn.empty())) {
    AttentionChoice choice = {AttentionBy::cudnn, {way(AttentionBy::cudnn)}, {}};
    if (automatic && spec.deterministic) choice.backward.push_back(way(AttentionBy::portable));
    std::stable_sort(choice.backward.begin(), choice.backward.end(),
                     [](const BackwardWay& a, const BackwardWay& b) { return a.predicted_ms < b.predicted_ms; });
    return choice;
  }
  const std::string portable = first_refusal(portable_attention_refusal, shape, spec);
  if (!portable.empty()) throw Failure(Exit::spec, portable);
  return {AttentionBy::portable, {way(AttentionBy::portable)}, {}};
}

}  // namespace llmc::ops
