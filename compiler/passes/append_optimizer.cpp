#include "compiler/ops/make.h"
#include "compiler/passes/passes.h"
#include "device/types.h"

namespace llmc::passes {

using namespace graph;

Graph append_optimizer(Graph graph, const spec::Spec& spec) {
  // All parameters at once; how many elements, chunks and tensors there are is known when they have offsets.
  const auto partial = [&](const char* name) { return graph.add({.name = name, .rows = 1, .cols = 1}); };
  const TensorId masters = graph.host(Use::masters), gradients = graph.host(Use::gradients),
                 chunks = graph.host(Use::chunks), scalars = graph.host(Use::scalars),
                 results = graph.host(Use::results);
  const OptimizerRow& optimizer = row_of(spec.optimizer.kind);
  const std::string name = optimizer.name;
  const TensorId own = graph.add_records((name + "_scalars").c_str(), Use::optimizer_scalars, Role::input,
                                         optimizer.record, optimizer.record_bytes);
  const TensorId groups = graph.add_records("group_scalars", Use::group_scalars, Role::input, "GroupScalars",
                                            sizeof(GroupScalars), static_cast<std::int64_t>(graph.groups.size()));
  std::vector<TensorId> inputs = {results, masters, gradients, chunks, own, groups};
  for (const StateTensor& state : optimizer.state)
    inputs.push_back(graph.add(
        {.name = state.name, .dtype = state.dtype, .rows = 1, .cols = 1, .role = Role::flat, .use = Use::state}));

  Region region{.name = "optimizer", .part = Part::optimizer};
  const TensorId gradient_partial = partial("gradient_partial");
  region.ops.push_back(ops::make::gradient_norm("gradient_norm", {gradients, chunks}, {gradient_partial}));
  region.ops.push_back(ops::make::gradient_clip("gradient_clip", {gradient_partial, scalars}, {results}));
  Op update{.kind = kind_of(name),
            .name = name,
            .inputs = inputs,
            .attributes = ops::UpdateAttributes{.norms = spec.metrics.per_parameter}};
  if (spec.metrics.per_parameter) update.outputs = {partial("weight_partial"), partial("update_partial")};
  region.ops.push_back(update);
  if (spec.metrics.per_parameter) {
    const TensorId first_chunk = graph.add({.name = "first_chunk",
                                            .dtype = DType::i32,
                                            .rows = 1,
                                            .cols = 1,
                                            .role = Role::constant,
                                            .use = Use::first_chunk});
    const TensorId norms =
        graph.add({.name = "tensor_norms", .rows = 1, .cols = 3, .role = Role::output, .use = Use::parameter_norms});
    region.ops.push_back(ops::make::parameter_norms(
        "parameter_norms", {gradient_partial, update.outputs[0], update.outputs[1], first_chunk}, {norms}));
  }
  graph.regions.push_back(std::move(region));
  return graph;
}

}  // namespace llmc::passes
