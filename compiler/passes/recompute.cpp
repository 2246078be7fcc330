#include <algorithm>
#include <map>
#include <set>

#include "compiler/graph/llama.h"
#include "compiler/ops/op.h"
#include "compiler/passes/passes.h"

namespace llmc::passes {

using namespace graph;

namespace {

/// Rewrites one layer's backward region for a set of recomputed forward ops.
class Rewriter {
 public:
  Rewriter(const Graph& graph, const Region& forward, RecomputeGroups again)
      : graph_(graph), forward_(forward), again_(again) {
    for (const Op& op : forward.ops)
      for (TensorId out : op.outputs) producer_[graph.storage(out)] = &op;  // the last writer of a buffer counts
  }

  std::vector<Op> rewrite(const Region& backward) {
    for (const Op& op : backward.ops) {
      if (const TensorId late = may_wait_for(op); late != kNone && comes_back_later(late, backward)) {
        waiting_.push_back(op);
        continue;
      }
      Op copy = op;
      for (TensorId input : op.inputs) ensure(input);
      const TensorId wanted = byproduct(op);
      if (wanted != kNone && is_wanted(wanted)) {
        ops::row_of(op.kind).give_forward(copy);
        copy.outputs.push_back(wanted);
        available_.insert(graph_.storage(wanted));
      }
      ops_.push_back(std::move(copy));
      release();
    }
    return std::move(ops_);
  }

 private:
  /// Whether the tensor is a forward activation that is not kept.
  bool dropped(TensorId id) const {
    const auto by = producer_.find(graph_.storage(id));
    if (by == producer_.end()) return false;
    // Row statistics are 1/hidden of the activations: kept unless the whole layer is recomputed.
    if (graph_.at(id).rows == 1 && again_ != kRecomputeAll) return false;
    return again_ & static_cast<RecomputeGroups>(by->second->group);
  }

  /// Returns the forward tensor that a backward kernel can write without extra reads, because it has the inputs; else
  /// kNone.
  TensorId byproduct(const Op& op) const {
    if (!ops::row_of(op.kind).give_forward) return kNone;
    const auto has = [&](TensorId input) { return std::ranges::find(op.inputs, input) != op.inputs.end(); };
    for (const Op& forward : forward_.ops)
      if (op.of == forward.id && std::ranges::all_of(forward.inputs, has)) return forward.outputs[0];
    return kNone;
  }

  bool is_wanted(TensorId id) const {
    return std::any_of(waiting_.begin(), waiting_.end(), [&](const Op& op) { return may_wait_for(op) == id; });
  }

  /// Returns the operand that a weight gradient may wait for; kNone for other ops.
  static TensorId may_wait_for(const Op& op) {
    const int input = ops::row_of(op.kind).may_wait_for;
    return input == ops::kNothing ? kNone : op.inputs[static_cast<std::size_t>(input)];
  }

  /// Whether a later backward kernel will provide it, which costs less than recomputing it.
  bool comes_back_later(TensorId id, const Region& backward) const {
    if (!dropped(id) || available_.count(graph_.storage(id))) return false;
    return std::any_of(backward.ops.begin(), backward.ops.end(), [&](const Op& op) { return byproduct(op) == id; });
  }

  /// Appends the weight gradients whose operand is now available.
  void release() {
    for (auto op = waiting_.begin(); op != waiting_.end();) {
      if (available_.count(graph_.storage(may_wait_for(*op)))) {
        ops_.push_back(*op);
        op = waiting_.erase(op);
      } else {
        ++op;
      }
    }
  }

  void ensure(TensorId id) {
    const TensorId buffer = graph_.storage(id);
    if (!dropped(id) || available_.count(buffer)) return;
    for (const Op& op : forward_.ops) {  // every writer of the buffer, in order: RoPE overwrites the projection's
                                         // result
      const bool writes = std::any_of(op.outputs.begin(), op.outputs.end(),
                                      [&](TensorId out) { return graph_.storage(out) == buffer; });
      if (!writes) continue;
      for (TensorId input : op.inputs)
        if (graph_.storage(input) != buffer) ensure(input);
      ops_.push_back(op);
      ops_.back().again = true;
      for (TensorId out : op.outputs)
        if (graph_.storage(out) != buffer) available_.insert(graph_.storage(out));
    }
    available_.insert(buffer);
    release();
  }

  const Graph& graph_;
  const Region& forward_;
  RecomputeGroups again_;
  std::map<TensorId, const Op*> producer_;
  std::set<TensorId> available_;
  std::vector<Op> ops_, waiting_;
};

/// Returns the forward activations that the backward region reads without having written them: one copy per layer
/// stays.
std::vector<TensorId> kept(const Graph& graph, const Region& forward, const std::vector<Op>& backward) {
  std::set<TensorId> made, local;
  for (const Op& op : forward.ops)
    for (TensorId out : op.outputs) made.insert(graph.storage(out));
  std::vector<TensorId> result;
  for (const Op& op : backward) {
    for (TensorId input : op.inputs) {
      const TensorId buffer = graph.storage(input);
      if (made.count(buffer) && !local.count(buffer) && std::find(result.begin(), result.end(), buffer) == result.end())
        result.push_back(buffer);
    }
    for (TensorId out : op.outputs) local.insert(graph.storage(out));
  }
  std::sort(result.begin(), result.end());
  return result;
}

/// Layers of the same kind and the same recomputed ops.
struct Variant {
  LayerKind kind;
  RecomputeGroups again = 0;

  bool operator==(const Variant&) const = default;
};

/// Returns the suffix of a variant's function names.
std::string suffix(const std::vector<Variant>& variants, std::size_t variant) {
  const RecomputeGroups again = variants[variant].again;
  const bool kinds = std::ranges::any_of(variants, [&](const Variant& v) { return v.kind != variants[0].kind; });
  if (variants.size() == 1 || (!kinds && again == 0)) return "";
  return !kinds && again == kRecomputeAll ? "_recomputed" : "_variant_" + std::to_string(variant);
}

}  // namespace

Graph recompute(Graph graph, const Choice& choice) {
  std::vector<Variant> variants;  // in the order of the layers
  for (std::size_t layer = 0; layer < choice.recompute.size(); ++layer) {
    const Variant own{graph.kinds[layer], choice.recompute[layer]};
    const auto known = std::ranges::find(variants, own);
    graph.variants[layer] = static_cast<int>(known - variants.begin());
    if (known == variants.end()) variants.push_back(own);
  }

  const Region forward = graph.region(Block::layer, Part::forward),
               backward = graph.region(Block::layer, Part::backward);
  std::vector<Region> regions;
  for (Region& region : graph.regions) {
    if (region.block != Block::layer) {
      regions.push_back(std::move(region));
      continue;
    }
    for (std::size_t v = 0; v < variants.size(); ++v) {
      Region copy = region;
      copy.name += suffix(variants, v);
      copy.variant = static_cast<int>(v);
      std::vector<Op> rewritten = Rewriter(graph, forward, variants[v].again).rewrite(backward);
      copy.saved = kept(graph, forward, rewritten);
      if (copy.part == Part::backward) copy.ops = std::move(rewritten);
      give_kind(graph, copy, variants[v].kind);
      regions.push_back(std::move(copy));
    }
  }
  graph.regions = std::move(regions);
  return graph;
}

}  // namespace llmc::passes
