#include <algorithm>
#include <map>
#include <set>

#include "compiler/passes/passes.h"

namespace llmc::passes {

using namespace graph;

namespace {

/// Names of memory.recompute's list, and the forward ops whose results they stand for.
const std::map<std::string, std::vector<std::string>> kGroups = {
    {"norms", {"attention_norm", "mlp_norm"}}, {"qkv", {"qkv", "rope"}}, {"attention", {"attention"}},
    {"residual", {"o"}},                       {"gate_up", {"gate_up"}}, {"swiglu", {"swiglu"}},
};

/// Rewrites one layer's backward region for a set of forward ops that are computed again.
class Rewriter {
 public:
  Rewriter(const Graph& graph, const Region& forward, std::set<std::string> again)
      : graph_(graph), forward_(forward), again_(std::move(again)) {
    for (const Op& op : forward.ops)
      for (TensorId out : op.outputs) producer_[graph.storage(out)] = &op;  // the last writer of a buffer counts
  }

  std::vector<Op> rewrite(const Region& backward) {
    for (const Op& op : backward.ops) {
      if (op.kind == OpKind::linear_wgrad && comes_back_later(op.inputs[1], backward)) {
        waiting_.push_back(op);
        continue;
      }
      Op copy = op;
      for (TensorId input : op.inputs) ensure(input);
      const TensorId wanted = byproduct(op);
      if (wanted != kNone && is_wanted(wanted)) {
        copy.recompute = true;
        copy.outputs.push_back(wanted);
        available_.insert(graph_.storage(wanted));
      }
      ops_.push_back(std::move(copy));
      release();
    }
    return std::move(ops_);
  }

 private:
  /// A forward activation that is not kept.
  bool dropped(TensorId id) const {
    const auto by = producer_.find(graph_.storage(id));
    if (by == producer_.end()) return false;
    // Row statistics are 1/hidden of the activations: kept unless the whole layer is computed again.
    if (graph_.at(id).rows == 1 && again_.size() < forward_.ops.size()) return false;
    return again_.count(by->second->name) > 0;
  }

  /// What a backward kernel can write besides its gradient, for free: it has the inputs at hand.
  TensorId byproduct(const Op& op) const {
    if (op.kind == OpKind::swiglu_backward || op.kind == OpKind::rms_norm_backward)
      for (const Op& forward : forward_.ops)
        if (op.name == forward.name + "_backward") return forward.outputs[0];
    return kNone;
  }

  bool is_wanted(TensorId id) const {
    return std::any_of(waiting_.begin(), waiting_.end(), [&](const Op& op) { return op.inputs[1] == id; });
  }

  /// Whether a weight gradient's operand is better taken from a later backward kernel than computed on its own.
  bool comes_back_later(TensorId id, const Region& backward) const {
    if (!dropped(id) || available_.count(graph_.storage(id))) return false;
    return std::any_of(backward.ops.begin(), backward.ops.end(), [&](const Op& op) { return byproduct(op) == id; });
  }

  /// Weight gradients whose operand is there now.
  void release() {
    for (auto op = waiting_.begin(); op != waiting_.end();) {
      if (available_.count(graph_.storage(op->inputs[1]))) {
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
    for (const Op& op : forward_.ops) {  // every writer of the buffer, in order: RoPE turns what the projection wrote
      const bool writes = std::any_of(op.outputs.begin(), op.outputs.end(),
                                      [&](TensorId out) { return graph_.storage(out) == buffer; });
      if (!writes) continue;
      for (TensorId input : op.inputs)
        if (graph_.storage(input) != buffer) ensure(input);
      ops_.push_back(op);
      ops_.back().name += "_again";
      for (TensorId out : op.outputs)
        if (graph_.storage(out) != buffer) available_.insert(graph_.storage(out));
    }
    available_.insert(buffer);
    release();
  }

  const Graph& graph_;
  const Region& forward_;
  std::set<std::string> again_;
  std::map<TensorId, const Op*> producer_;
  std::set<TensorId> available_;
  std::vector<Op> ops_, waiting_;
};

/// Forward activations that the backward region reads without having written them: one copy a layer stays.
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

std::set<std::string> all_ops(const Region& forward) {
  std::set<std::string> names;
  for (const Op& op : forward.ops) names.insert(op.name);
  return names;
}

}  // namespace

Graph recompute(Graph graph, const spec::Spec& spec) {
  const spec::Recompute& wish = spec.memory.recompute;
  const Region forward = *graph.region("layer_forward"), backward = *graph.region("layer_backward");

  struct Variant {
    std::string suffix;
    std::set<std::string> again;
    std::vector<std::int64_t> layers;
  };
  std::vector<Variant> variants;
  switch (wish.kind) {
    case spec::Recompute::Kind::none: variants.push_back({"", {}, forward.layers}); break;
    case spec::Recompute::Kind::full: variants.push_back({"", all_ops(forward), forward.layers}); break;
    case spec::Recompute::Kind::ops: {
      Variant v{"", {}, forward.layers};
      for (const std::string& group : wish.ops)
        for (const std::string& op : kGroups.at(group)) v.again.insert(op);
      variants.push_back(std::move(v));
      break;
    }
    case spec::Recompute::Kind::every: {
      Variant again{"_recomputed", all_ops(forward), {}}, keep{"", {}, {}};
      for (std::int64_t layer : forward.layers) (layer % wish.every == 0 ? again : keep).layers.push_back(layer);
      variants.push_back(std::move(again));
      if (!keep.layers.empty()) variants.push_back(std::move(keep));
      break;
    }
  }

  std::vector<Region> regions;
  for (Region& region : graph.regions) {
    const bool is_forward = region.name == "layer_forward", is_backward = region.name == "layer_backward";
    if (!is_forward && !is_backward) {
      regions.push_back(std::move(region));
      continue;
    }
    for (const Variant& variant : variants) {
      Region copy = is_forward ? forward : backward;
      copy.name += variant.suffix;
      copy.layers = variant.layers;
      std::vector<Op> rewritten = Rewriter(graph, forward, variant.again).rewrite(backward);
      copy.saved = kept(graph, forward, rewritten);
      if (is_backward) copy.ops = std::move(rewritten);
      regions.push_back(std::move(copy));
    }
  }
  graph.regions = std::move(regions);
  return graph;
}

}  // namespace llmc::passes
