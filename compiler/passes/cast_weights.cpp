#include <map>

#include "compiler/ops/make.h"
#include "compiler/ops/op.h"
#include "compiler/passes/passes.h"

namespace llmc::passes {

using namespace graph;

Graph cast_weights(Graph graph, const spec::Spec&) {
  // The copies of all parameters in one dtype are one flat buffer, written by one cast op from the masters.
  std::map<std::pair<TensorId, DType>, TensorId> copies;
  std::map<DType, TensorId> flat;
  for (Region& region : graph.regions)
    for (Op& op : region.ops)
      for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        const TensorId weight = op.inputs[i];
        if (graph.at(weight).role != Role::parameter) continue;
        const DType type = ops::row_of(op.kind).weight_type(ops::Operands{graph, region, op}, i);
        if (type == graph.at(weight).dtype) continue;
        const auto [copy, fresh] = copies.try_emplace({weight, type}, kNone);
        if (fresh) copy->second = graph.add_copy(weight, type);
        if (!flat.count(type))
          flat[type] = graph.add({.name = std::string("copies_") + name_of(type),
                                  .dtype = type,
                                  .rows = 1,
                                  .cols = 1,
                                  .role = Role::flat,
                                  .use = Use::copies});
        op.inputs[i] = copy->second;
      }
  if (flat.empty()) return graph;
  const TensorId masters = graph.host(Use::masters), chunks = graph.host(Use::chunks);
  Region refresh{.name = "refresh", .part = Part::refresh};
  for (const auto& [type, copy] : flat)
    refresh.ops.push_back(ops::make::cast(std::string("cast_weights_") + name_of(type), {masters, chunks}, {copy}));
  // The update writes one of them along with the masters.
  Region& optimizer = graph.region(Block::none, Part::optimizer);
  for (Op& op : optimizer.ops)
    if (ops::row_of(op.kind).updates_weights) {
      op.as<ops::UpdateAttributes>().copies = true;
      op.outputs.insert(op.outputs.begin(), flat.begin()->second);
    }
  optimizer.ops.insert(optimizer.ops.end(), refresh.ops.begin() + 1, refresh.ops.end());
  graph.regions.push_back(std::move(refresh));
  return graph;
}

}  // namespace llmc::passes
