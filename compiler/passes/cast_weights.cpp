#include <map>

#include "compiler/passes/passes.h"

namespace llmc::passes {

using namespace graph;

namespace {

/// The type in which `op` reads its input `i`, a parameter. Products want both operands in one type; a bias has the type
/// of the result that it is added to, a row of the embedding that of the residual stream.
DType read_type(const Graph& graph, const Op& op, std::size_t i) {
  const DType result = op.outputs.empty() ? DType::f32 : graph.at(op.outputs[0]).dtype;
  switch (op.kind) {
    case OpKind::linear: return i == 1 ? graph.at(op.inputs[0]).dtype : result;
    case OpKind::linear_dgrad: return graph.at(op.inputs[0]).dtype;
    case OpKind::embedding: return result;
    default: return DType::f32;
  }
}

}  // namespace

Graph cast_weights(Graph graph, const spec::Spec&) {
  std::map<std::pair<TensorId, DType>, TensorId> copies;
  Op cast{.kind = OpKind::cast, .name = "cast_weights"};
  for (Region& region : graph.regions)
    for (Op& op : region.ops)
      for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        const TensorId weight = op.inputs[i];
        if (graph.at(weight).role != Role::parameter) continue;
        const DType type = read_type(graph, op, i);
        if (type == graph.at(weight).dtype) continue;
        const auto [copy, fresh] = copies.try_emplace({weight, type}, kNone);
        if (fresh) {
          Tensor tensor = graph.at(weight);
          tensor.name += std::string("_") + name_of(type);
          tensor.dtype = type;
          tensor.role = Role::copy;
          tensor.storage = kNone;
          tensor.partner = weight;
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
