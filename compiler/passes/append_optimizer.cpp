#include "compiler/passes/passes.h"

namespace llmc::passes {

using namespace graph;

Graph append_optimizer(Graph graph, const spec::Spec& spec) {
  Region region{.name = "optimizer", .part = Part::optimizer};
  // One partial sum for each chunk of each parameter; how many there are is known when parameters have offsets.
  const auto partial = [&](const char* name) { return graph.add({.name = name, .rows = 1, .cols = 1}); };
  const TensorId gradient_partial = partial("gradient_partial");
  region.ops.push_back(
      {.kind = OpKind::gradient_norm, .name = "gradient_norm", .inputs = {}, .outputs = {gradient_partial}});
  const TensorId norm = partial("clip_scale");
  graph.at(norm).role = Role::result;
  region.ops.push_back(
      {.kind = OpKind::gradient_clip, .name = "gradient_clip", .inputs = {gradient_partial}, .outputs = {norm}});
  Op update{.kind = OpKind::adamw, .name = "adamw", .inputs = {norm}, .outputs = {}};
  if (spec.metrics.per_parameter) {
    const TensorId weight = partial("weight_partial"), step = partial("update_partial");
    update.outputs = {weight, step};
    region.ops.push_back(update);
    graph.host.parameter_norms = partial("tensor_norms");
    graph.at(graph.host.parameter_norms).role = Role::output;
    region.ops.push_back({.kind = OpKind::parameter_norms,
                          .name = "parameter_norms",
                          .inputs = {gradient_partial, weight, step},
                          .outputs = {graph.host.parameter_norms}});
  } else {
    region.ops.push_back(update);
  }
  graph.regions.push_back(std::move(region));
  return graph;
}

}  // namespace llmc::passes
