#include <map>

#include "compiler/ops/op.h"
#include "compiler/passes/passes.h"

namespace llmc::passes {

using namespace graph;

Graph cast_weights(Graph graph, const spec::Spec&) {
  std::map<std::pair<TensorId, DType>, TensorId> copies;
  Op cast{.kind = OpKind::cast, .name = "cast_weights"};
  for (Region& region : graph.regions)
    for (Op& op : region.ops)
      for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        const TensorId weight = op.inputs[i];
        if (graph.at(weight).role != Role::parameter) continue;
        const DType type = ops::row_of(op.kind).weight_type(ops::Operands{graph, region, op}, i);
        if (type == graph.at(weight).dtype) continue;
        const auto [copy, fresh] = copies.try_emplace({weight, type}, kNone);
        if (fresh) {
          Tensor tensor = graph.at(weight);
          tensor.name += std::string("_") + name_of(type);
          tensor.dtype = type;
          tensor.role = Role::copy;
          tensor.storage = kNone;
          tensor.partner = weight;
          tensor.pieces.clear();
          copy->second = graph.add(tensor);
          cast.inputs.push_back(weight);
          cast.outputs.push_back(copy->second);
        }
        op.inputs[i] = copy->second;
      }
  if (cast.outputs.empty()) return graph;
  for (Region& region : graph.regions)
    for (Op& op : region.ops) op.copies = op.kind == OpKind::adamw;
  graph.regions.push_back({.name = "refresh", .part = Part::refresh, .ops = {std::move(cast)}});
  return graph;
}

}  // namespace llmc::passes
