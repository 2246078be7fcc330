#include "compiler/ops/attention/choice.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/ops/attention/attention.h"
#include "error.h"

namespace llmc::ops {

using namespace graph;

namespace {

/// Returns the reason of `refusal`, called with a compute capability, for the first architecture that it refuses; empty
/// if it refuses none.
template <class Refusal>
std::string first_refusal(const spec::Spec& spec, const Refusal& refusal) {
  for (const std::string& arch : spec.target.arch) {
    const std::string why = refusal(std::stoi(arch));
    if (!why.empty()) return why;
  }
  return "";
}

// Rates within the reference run's step on an H100 (docs/reference/benchmarks.md): of cuDNN's five products; of the
// gradients of all scores, which it writes and rereads if sums must have one order (some of them in the L2 cache); and
// of the seven products of llmc's passes by warps and by warpgroups. Heads wider than 64 were not measured. By warps
// they have one row tile, which is bound by shared memory at 8 clocks for 6.4. By warpgroups the model of
// docs/reference/kernel-counts.md gives 56.5 ms where it gives 30.4 for heads of 64, with twice the FLOPs, and 53.0
// where query heads share copies of keys.
constexpr double kCudnnFlops = 249e12, kScoreBytes = 13e12;
constexpr double kOwnFlops = 256e12, kOwnWideFlops = kOwnFlops * 6.36 / 8;
constexpr double kOwnWarpgroupFlops = 395e12, kWideMs = 56.5, kWideSharedMs = 53.0, kNarrowMs = 30.4;

/// Predicts the ms of a layer's backward pass.
double backward_ms(const AttentionShape& s, AttentionBy by, const spec::Spec& spec) {
  // Twice the mask's scores: the whole square of a causal one. cuDNN keeps and a product computes half of it.
  const double scores = 2 * s.mask().scores() * static_cast<double>(s.batch * s.heads);
  const double product = scores * static_cast<double>(s.head_dim);
  const double score_bytes = s.deterministic ? 2 * 2 * scores : 0;
  if (by == AttentionBy::cudnn) return 1e3 * (5 * product / kCudnnFlops + score_bytes / kScoreBytes);
  if (attention_in_warpgroups(spec, s.head_dim)) {
    const double padded = static_cast<double>(warpgroup_columns(s.head_dim)) / static_cast<double>(s.head_dim);
    const bool shared = blocks_that_share_keys(s.heads, s.kv_heads, s.head_dim, false) > 1;
    const double of_wide = (shared ? kWideSharedMs : kWideMs) / (2 * kNarrowMs);  // time of a FLOP, of heads of 64: 1
    return 1e3 * 7 * padded * product / kOwnWarpgroupFlops * (s.head_dim <= 64 ? 1 : of_wide);
  }
  return 1e3 * 7 * product / (s.head_dim <= 64 ? kOwnFlops : kOwnWideFlops);
}

std::size_t backward_workspace_bytes(const AttentionShape& s, AttentionBy by) {
  if (by == AttentionBy::cudnn) return attention_workspace_bytes(s);
  // templates/cuda/attention_backward_queries.cu: delta, fp32, one per query and head.
  return static_cast<std::size_t>(s.batch * s.heads * s.sequence) * 4;
}

bool is_hopper(const std::string& arch) { return std::stoi(arch) / 10 == 9; }

AttentionChoice choose(const AttentionShape& shape, const spec::Spec& spec) {
  const spec::AttentionKind kind = spec.target.attention;
  const std::string cudnn = kind == spec::AttentionKind::portable ? "" : first_refusal(spec, [&](int arch) {
    return attention_refusal(shape, spec.compute, arch);
  });
  if (kind == spec::AttentionKind::cudnn && !cudnn.empty()) throw Failure(Exit::spec, cudnn);
  const bool known =
      spec.compute == DType::bf16 && std::all_of(spec.target.arch.begin(), spec.target.arch.end(), is_hopper);
  const auto way = [&](AttentionBy by) {
    return BackwardWay{by, known ? backward_ms(shape, by, spec) : 0, backward_workspace_bytes(shape, by)};
  };
  const bool automatic = kind == spec::AttentionKind::automatic;
  if (kind == spec::AttentionKind::cudnn || (automatic && cudnn.empty())) {
    AttentionChoice choice = {shape, AttentionBy::cudnn, {way(AttentionBy::cudnn)}, {}};
    if (automatic && spec.deterministic) choice.backward.push_back(way(AttentionBy::portable));
    std::stable_sort(choice.backward.begin(), choice.backward.end(),
                     [](const BackwardWay& a, const BackwardWay& b) { return a.predicted_ms < b.predicted_ms; });
    return choice;
  }
  const std::string portable = first_refusal(spec, [&](int arch) { return portable_attention_refusal(shape, arch); });
  if (!portable.empty()) throw Failure(Exit::spec, portable);
  return {shape, AttentionBy::portable, {way(AttentionBy::portable)}, {}};
}

}  // namespace

AttentionShape attention_shape(const Graph& graph, const Op& op, const spec::Spec& spec) {
  const bool backward = op.kind == OpKind::attention_backward;
  const auto& [heads, window, multiplier, documents, softcap, rotates, resets] = op.as<AttentionAttributes>();
  return {graph.batch,
          graph.sequence,
          heads.query,
          heads.key,
          heads.dim,
          graph.at(op.inputs[backward ? 2 : 0]).pitch,
          graph.at(backward ? op.inputs[1] : op.outputs[0]).pitch,
          spec.deterministic,
          window,
          static_cast<float>(multiplier),
          documents,
          softcap > 0};
}

bool backward_in_warpgroups(const Graph& graph, const Op& op, const spec::Spec& spec) {
  const AttentionShape shape = attention_shape(graph, op, spec);
  return spec.compute == DType::bf16 && attention_in_warpgroups(spec, shape.head_dim) &&
         choose(shape, spec).carries(AttentionBy::portable);
}

std::string attention_suffix(const AttentionShape& shape) {
  return shape.window ? fmt::format("_window_{}", shape.window) : "";
}

const AttentionChoice& AttentionChoices::of(const Graph& graph, const Op& op, const spec::Spec& spec) const {
  const AttentionShape shape = attention_shape(graph, op, spec);
  const auto found = std::ranges::find(list, shape, &AttentionChoice::shape);
  if (found == list.end())
    throw Failure(Exit::internal, "no implementation was chosen for the attention of " + op.label());
  return *found;
}

bool AttentionChoices::leave_out_largest() {
  AttentionChoice* most = nullptr;
  for (AttentionChoice& choice : list)
    if (choice.backward.size() > 1 && (!most || choice.workspace_bytes() > most->workspace_bytes())) most = &choice;
  if (!most) return false;
  const auto largest = std::ranges::max_element(most->backward, {}, &BackwardWay::workspace_bytes);
  most->left_out.push_back(*largest);
  most->backward.erase(largest);
  return true;
}

AttentionChoices choose_attention(const Graph& graph, const spec::Spec& spec) {
  AttentionChoices choices;
  for (const Region& region : graph.regions)
    for (const Op& op : region.ops) {
      if (op.kind != OpKind::attention || region.part != Part::forward) continue;
      const AttentionShape shape = attention_shape(graph, op, spec);
      if (std::ranges::find(choices.list, shape, &AttentionChoice::shape) == choices.list.end())
        choices.list.push_back(choose(shape, spec));
    }
  for (const Region& region : graph.regions)
    for (const Op& op : region.ops)
      if (op.kind == OpKind::attention_backward && op.as<AttentionAttributes>().rotates)
        std::ranges::find(choices.list, attention_shape(graph, op, spec), &AttentionChoice::shape)->rotates = true;
  return choices;
}

}  // namespace llmc::ops
