#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/ops/op.h"
#include "compiler/passes/passes.h"

namespace llmc::passes {

using namespace graph;

namespace {

class Keeper {
 public:
  explicit Keeper(Graph& graph) : g_(graph) {}

  /// Marks the region's ops that read weights alone. Drops one whose results its layer's forward pass has.
  void keep(Region& region) {
    std::map<TensorId, TensorId> replaced;
    std::vector<Op> ops;
    for (Op& op : region.ops) {
      for (TensorId& id : op.inputs)
        if (const auto found = replaced.find(id); found != replaced.end()) id = found->second;
      if (reads_weights_alone(op)) {
        const auto [known, fresh] = made_.try_emplace(key(region, op), op.outputs);
        if (!fresh) {
          for (std::size_t i = 0; i < op.outputs.size(); ++i) replaced[op.outputs[i]] = known->second[i];
          continue;
        }
        op.once = true;
        for (const TensorId id : op.outputs) g_.at(id).role = Role::rounded;
      }
      ops.push_back(std::move(op));
    }
    region.ops = std::move(ops);
  }

  /// Makes one op of two that round the same weight and write its codes as they lie, and transposed.
  void join_layouts() {
    for (Region& region : g_.regions)
      std::erase_if(region.ops, [&](const Op& op) { return op.once && join_with_straight(region.variant, op); });
  }

 private:
  /// Equal for ops with equal results.
  using Key = std::tuple<int, OpKind, std::string, std::vector<TensorId>, std::vector<DType>>;

  Key key(const Region& region, const Op& op) const {
    std::vector<DType> dtypes;
    for (const TensorId id : op.outputs) dtypes.push_back(g_.at(id).dtype);
    const std::string attributes = std::visit([](const auto& of) { return of.text(); }, op.attributes);
    return {region.variant, op.kind, attributes, op.inputs, std::move(dtypes)};
  }

  bool reads_weights_alone(const Op& op) const {
    return !op.inputs.empty() && std::ranges::all_of(op.inputs, [&](TensorId id) {
      const Role role = g_.at(id).role;
      return role == Role::parameter || role == Role::copy || role == Role::rounded;
    });
  }

  /// Returns whether another op writes the results of `transposed` now.
  bool join_with_straight(int variant, const Op& transposed) {
    const std::optional<OpKind> kind = ops::row_of(transposed.kind).straight;
    if (!kind) return false;
    for (Region& region : g_.regions)
      for (Op& op : region.ops) {
        if (!op.once || op.kind != *kind || region.variant != variant || op.inputs != transposed.inputs) continue;
        op.kind = transposed.kind;
        op.outputs.insert(op.outputs.begin(), transposed.outputs.begin(), transposed.outputs.end());
        return true;
      }
    return false;
  }

  Graph& g_;
  std::map<Key, std::vector<TensorId>> made_;  // results of the ops that run once
};

}  // namespace

Graph keep_rounded_weights(Graph graph, const Choice& choice) {
  if (!choice.keep_rounded_weights) return graph;
  Keeper keeper(graph);
  for (const bool backward : {false, true})
    for (Region& region : graph.regions)
      if (region.trains() && region.loop != Loop::loss_chunks && region.is_backward() == backward) keeper.keep(region);
  keeper.join_layouts();
  return graph;
}

}  // namespace llmc::passes
