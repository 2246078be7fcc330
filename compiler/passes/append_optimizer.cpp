#include "compiler/ops/make.h"
#include "compiler/ops/update.h"
#include "compiler/passes/passes.h"
#include "device/types.h"

namespace llmc::passes {

using namespace graph;

namespace {

/// Ops of a run's optimizers.
struct Updates {
  std::vector<Op> updates;   // of the parameters of each optimizer that groups name: their operands, but for what is
                             // written
  std::vector<Op> momentum;  // of the one that orthogonalises, if any
};

Updates updates(Graph& graph, const spec::Spec& spec) {
  const std::vector<GroupsOptimizer> optimizers = optimizers_of(graph.groups, spec.optimizer.kind);
  const auto group_count = static_cast<std::int64_t>(graph.groups.size());
  auto [updates, momentum] = Updates{};
  for (const GroupsOptimizer& of : optimizers) {
    const OptimizerRow& row = row_of(of.kind);
    const std::string name = row.op;
    const TensorId own = graph.add_records((name + "_scalars").c_str(), Use::optimizer_scalars, Role::input, row.record,
                                           row.record_bytes, group_count);
    updates.push_back({.kind = kind_of(name),
                       .name = name,
                       .inputs = {graph.host(Use::results), graph.host(Use::masters), graph.host(Use::gradients),
                                  graph.host(Use::chunks), own},
                       .attributes = ops::UpdateAttributes{.norms = spec.metrics.per_parameter, .groups = of.groups}});
  }
  const TensorId groups = graph.add_records("group_scalars", Use::group_scalars, Role::input, "GroupScalars",
                                            sizeof(GroupScalars), group_count);
  for (std::size_t i = 0; i < optimizers.size(); ++i) {
    updates[i].inputs.push_back(groups);
    const OptimizerRow& row = row_of(optimizers[i].kind);
    std::vector<TensorId> kept;
    for (const StateTensor& state : row.state)
      kept.push_back(graph.add({.name = state.name,
                                .dtype = state.dtype,
                                .rows = 1,
                                .cols = 1,
                                .role = Role::flat,
                                .use = state.of_rows ? Use::row_state : Use::state,
                                .state_block = state.block,
                                .groups = optimizers[i].groups,
                                .saved_as = state.saved_as}));
    std::vector<TensorId>& inputs = updates[i].inputs;
    if (row.orthogonalises)
      momentum.push_back(ops::make::muon_momentum("muon_momentum",
                                                  {inputs[ops::kUpdateResults], inputs[ops::kUpdateGradients],
                                                   inputs[ops::kUpdateChunks], inputs[ops::kUpdateScalars], kept[0]},
                                                  {}, ops::UpdateAttributes{.groups = optimizers[i].groups}));
    else
      inputs.insert(inputs.end(), kept.begin(), kept.end());
  }
  return {std::move(updates), std::move(momentum)};
}

}  // namespace

Graph append_optimizer(Graph graph, const spec::Spec& spec) {
  // One op for all parameters. Counts of elements, chunks and tensors are known when parameters have offsets.
  const auto partial = [&](const char* name) { return graph.add({.name = name, .rows = 1, .cols = 1}); };
  const TensorId gradients = graph.host(Use::gradients), chunks = graph.host(Use::chunks),
                 scalars = graph.host(Use::scalars), results = graph.host(Use::results);
  auto [each, momentum] = updates(graph, spec);

  Region prepare{.name = "prepare_optimizer", .part = Part::prepare};
  Region region{.name = "optimizer", .part = Part::optimizer};
  std::vector<Op>& first = momentum.empty() ? region.ops : prepare.ops;
  const TensorId gradient_partial = partial("gradient_partial");
  first.push_back(ops::make::gradient_norm("gradient_norm", {gradients, chunks}, {gradient_partial}));
  std::vector<TensorId> scale;
  if (spec.has_loss_scale()) scale = {graph.host(Use::loss_scale)};
  std::vector<TensorId> judged = {results};
  judged.insert(judged.end(), scale.begin(), scale.end());
  first.push_back(ops::make::gradient_clip("gradient_clip", {gradient_partial, scalars}, std::move(judged)));
  if (!momentum.empty()) {
    const TensorId own = momentum[0].inputs[ops::kMomentumScalars];
    prepare.ops.push_back(std::move(momentum[0]));
    graph.regions.push_back(std::move(prepare));
    append_orthogonalising(graph, spec, own);
  }
  // Each writes the sums of its own chunks.
  std::vector<TensorId> sums;
  if (spec.metrics.per_parameter) sums = {partial("weight_partial"), partial("update_partial")};
  for (Op& update : each) {
    update.outputs = sums;
    region.ops.push_back(std::move(update));
  }
  if (spec.metrics.per_parameter) {
    const TensorId first_chunk = graph.add({.name = "first_chunk",
                                            .dtype = DType::i32,
                                            .rows = 1,
                                            .cols = 1,
                                            .role = Role::constant,
                                            .use = Use::first_chunk});
    const TensorId norms =
        graph.add({.name = "tensor_norms", .rows = 1, .cols = 3, .role = Role::output, .use = Use::parameter_norms});
    std::vector<TensorId> inputs = {gradient_partial, sums[0], sums[1], first_chunk};
    inputs.insert(inputs.end(), scale.begin(), scale.end());
    region.ops.push_back(ops::make::parameter_norms("parameter_norms", std::move(inputs), {norms}));
  }
  graph.regions.push_back(std::move(region));
  return graph;
}

}  // namespace llmc::passes
