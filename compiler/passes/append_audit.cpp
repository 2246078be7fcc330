#include <fmt/format.h>

#include <map>
#include <utility>
#include <vector>

#include "compiler/graph/llama.h"
#include "compiler/ops/make.h"
#include "compiler/passes/passes.h"

namespace llmc::passes {

using namespace graph;

namespace {

/// Adds the forward pass to `graph` a second time, in fp32. The copy reads the graph's weights and inputs and has its
/// own activations. It keeps nothing for a backward pass, so one stream serves all layers.
class Twin {
 public:
  Twin(Graph& graph, const spec::Spec& spec)
      : graph_(graph),
        split_(spec.master == spec::Masters::split),
        plain_(reuse_in_place(fuse_residual(pad_rows(build_llama(spec, graph.kinds, graph.batch), spec), spec), spec)) {
  }

  /// Appends the ops before the head's product, which is forward op `last`; returns that product's inputs.
  std::vector<TensorId> append(OpId last) {
    std::vector<TensorId> features;
    for (Region region : plain_.regions) {
      region.name = "audit_" + region.name;
      region.part = Part::audit;
      region.variant = kAllVariants;
      region.reads = region.writes = nullptr;
      for (Op& op : std::exchange(region.ops, {})) {
        for (TensorId& id : op.inputs) id = own(id);
        if (op.id == last) {
          features = op.inputs;
          break;
        }
        for (TensorId& id : op.outputs) id = own(id);
        op.name = "audit_" + op.name;
        op.id = kNone;
        region.ops.push_back(std::move(op));
      }
      for_each_kind(std::move(region));
    }
    return features;
  }

 private:
  /// Appends the region; a layer region once for each kind.
  void for_each_kind(Region region) {
    const std::vector<LayerKind> kinds = distinct(graph_.kinds);
    if (region.block != Block::layer || kinds.size() == 1) return graph_.regions.push_back(std::move(region));
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      graph_.regions.push_back(region);
      Region& own = graph_.regions.back();
      own.name += fmt::format("_kind_{}", k);
      own.kind = kinds[k];
      give_kind(graph_, own, kinds[k]);
    }
  }

  /// Maps a tensor of the plain pass to one of `graph_`. Tensors of the model's builder have the same ids in both.
  TensorId own(TensorId id) {
    // Split masters are joined where the gradients are between steps (Session::audit).
    if (split_ && plain_.at(id).role == Role::parameter) return graph_.at(id).partner;
    if (plain_.at(id).role != Role::activation) return id;
    if (plain_.stream.has(id)) id = plain_.stream.below;
    if (const auto known = made_.find(id); known != made_.end()) return known->second;
    Tensor copy = plain_.at(id);
    copy.name = "audit_" + copy.name;
    copy.storage = copy.storage == id ? kNone : own(copy.storage);
    if (copy.scope == Scope::boundary) copy.scope = Scope::step;
    return made_[id] = graph_.add(copy);
  }

  Graph& graph_;
  const bool split_;
  Graph plain_;
  std::map<TensorId, TensorId> made_;
};

/// Returns the head's product of training with its result in fp32, of the operands that samples have: those before fp8
/// rounds them.
Op wide_product(Graph& graph) {
  Op logits = graph.region(Block::head, Part::loss).ops.front();
  const std::vector<Op>& sample = graph.region(Block::none, Part::sample).ops;
  logits.inputs = {sample[0].inputs[0], sample[1].inputs[1]};
  Tensor wide = graph.at(logits.outputs[0]);
  wide.name = logits.name = "audit_logits";
  wide.dtype = DType::f32;
  wide.storage = kNone;
  logits.outputs = {graph.add(wide)};
  return logits;
}

}  // namespace

Graph append_audit(Graph graph, const spec::Spec& spec) {
  if (spec.audit.compute == spec::AuditCompute::none) return graph;
  Op logits = wide_product(graph);
  if (spec.audit.compute == spec::AuditCompute::forward) logits.inputs = Twin(graph, spec).append(logits.id);
  const TensorId losses = graph.add({.name = "audit_losses",
                                     .rows = 1,
                                     .cols = graph.tokens(),
                                     .role = Role::output,
                                     .axis = Axis::token,
                                     .use = Use::audit_losses});
  Region chunks{.name = "audit_chunk", .block = Block::head, .part = Part::audit, .loop = Loop::loss_chunks};
  TensorId scores = logits.outputs[0];
  chunks.ops = {std::move(logits)};
  if (const double cap = spec.model.final_logit_softcapping; cap > 0) {
    Tensor capped = graph.at(scores);
    capped.name = "audit_capped", capped.storage = scores;
    const TensorId result = graph.add(capped);
    chunks.ops.push_back(ops::make::soft_cap("audit_soft_cap", {scores}, {result}, ops::SoftCapAttributes{cap}));
    scores = result;
  }
  chunks.ops.push_back(ops::make::audit_loss("audit_loss", {scores, graph.host(Use::targets)}, {losses}));
  graph.regions.push_back(std::move(chunks));
  return graph;
}

}  // namespace llmc::passes
