#include <algorithm>
#include <set>

#include "compiler/ops/attention/attention.h"
#include "compiler/ops/attention/choice.h"
#include "compiler/ops/op.h"
#include "compiler/passes/passes.h"

namespace llmc::passes {

using namespace graph;

namespace {

/// Returns the op that rotates the gradients which `attention` has made, if attention's own kernels can do it; else
/// null.
const Op* rotation_of(const Graph& graph, const Region& region, const Op& attention, const spec::Spec& spec) {
  const auto reads = [&](const Op& op) { return std::ranges::count(op.inputs, attention.outputs[0]) > 0; };
  const auto found = std::ranges::find_if(region.ops, reads);
  if (std::ranges::count_if(region.ops, reads) != 1) return nullptr;
  const auto* rope = std::get_if<ops::RopeAttributes>(&found->attributes);
  // A lane has two of each eight columns, so a pair is in one lane if half of a head is a multiple of eight.
  const bool can = rope && rope->rotates && rope->whole() && rope->heads.dim % 16 == 0 &&
                   (!rope->resets || attention.as<ops::AttentionAttributes>().documents) &&
                   ops::backward_in_warpgroups(graph, attention, spec);
  return can ? &*found : nullptr;
}

void fuse(Graph& graph, Region& region, std::size_t at, const Op& rotation) {
  Op& attention = region.ops[at];
  auto& own = attention.as<ops::AttentionAttributes>();
  own.rotates = true;
  own.resets = rotation.as<ops::RopeAttributes>().resets;
  attention.inputs.insert(attention.inputs.begin() + 4, rotation.inputs[1]);
  attention.outputs[0] = rotation.outputs[0];
  region.ops.erase(region.ops.begin() + (&rotation - region.ops.data()));
  graph.at(attention.outputs[0]).storage = attention.outputs[0];
}

}  // namespace

Graph fuse_rope(Graph graph, const spec::Spec& spec) {
  const auto is_backward = [](const Op& op) {
    return ops::row_of(op.kind).priced_as == ops::PricedAs::attention_backward;
  };
  const auto window = [](const Op& op) { return op.as<ops::AttentionAttributes>().window; };
  std::set<int> apart;
  for (const Region& region : graph.regions)
    for (const Op& op : region.ops)
      if (is_backward(op) && !rotation_of(graph, region, op, spec)) apart.insert(window(op));
  for (Region& region : graph.regions)
    for (std::size_t i = 0; i < region.ops.size(); ++i)
      if (is_backward(region.ops[i]) && !apart.contains(window(region.ops[i])))
        fuse(graph, region, i, *rotation_of(graph, region, region.ops[i], spec));
  return graph;
}

}  // namespace llmc::passes
