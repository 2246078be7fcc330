#include <algorithm>

#include "compiler/passes/passes.h"

namespace llmc::passes {

using namespace graph;

namespace {

bool used_once(const Region& region, TensorId id) {
  int uses = 0;
  for (const Op& op : region.ops) uses += static_cast<int>(std::count(op.inputs.begin(), op.inputs.end(), id));
  return uses == 1;
}

/// Returns the op of `region` whose first output is `id`, or null.
Op* producer(Region& region, TensorId id) {
  for (Op& op : region.ops)
    if (op.outputs[0] == id) return &op;
  return nullptr;
}

/// Folds an add into the residual input of the op with attributes T that writes its operand.
template <class T>
Graph fuse_add_into(Graph graph) {
  for (Region& region : graph.regions) {
    for (std::size_t i = 0; i < region.ops.size();) {
      const Op add = region.ops[i];
      bool fused = false;
      if (add.kind == OpKind::add) {
        for (int operand : {1, 0}) {
          Op* source = producer(region, add.inputs[static_cast<std::size_t>(operand)]);
          const TensorId other = add.inputs[static_cast<std::size_t>(1 - operand)];
          auto* attributes = source ? std::get_if<T>(&source->attributes) : nullptr;
          if (!attributes || attributes->residual || !used_once(region, source->outputs[0])) continue;
          source->inputs.push_back(other);
          attributes->residual = true;
          source->outputs[0] = add.outputs[0];
          fused = true;
          break;
        }
      }
      if (fused)
        region.ops.erase(region.ops.begin() + static_cast<std::ptrdiff_t>(i));
      else
        ++i;
    }
  }
  return graph;
}

/// Lets a norm that adds to the residual stream write the sum in the compute dtype too, for the product that reads it.
Graph fuse_rounding(Graph graph) {
  for (Region& region : graph.regions)
    for (std::size_t i = 0; i < region.ops.size(); ++i) {
      const Op round = region.ops[i];
      if (round.kind != OpKind::round_stream) continue;
      Op* source = producer(region, round.inputs[0]);
      auto* norm = source ? std::get_if<ops::RmsNormAttributes>(&source->attributes) : nullptr;
      if (!norm || !norm->residual) continue;
      norm->copy = true;
      source->outputs.push_back(round.outputs[0]);
      region.ops.erase(region.ops.begin() + static_cast<std::ptrdiff_t>(i--));
    }
  return graph;
}

}  // namespace

Graph fuse_residual(Graph graph, const spec::Spec&) {
  return fuse_rounding(fuse_add_into<ops::RmsNormAttributes>(fuse_add_into<ops::LinearAttributes>(std::move(graph))));
}

Graph fuse_gradient_sum(Graph graph, const spec::Spec&) {
  return fuse_add_into<ops::RmsNormBackwardAttributes>(std::move(graph));
}

}  // namespace llmc::passes
