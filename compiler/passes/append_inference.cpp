#include "compiler/ops/make.h"
#include "compiler/passes/passes.h"
#include "device/types.h"

namespace llmc::passes {

using namespace graph;

Graph append_inference(Graph graph, const spec::Spec& spec) {
  const Region& chunks = graph.region(Block::head, Part::loss);
  Op logits = chunks.ops[0], loss = chunks.ops[1];
  const double cap = loss.as<ops::CrossEntropyAttributes>().softcap;
  loss.attributes = ops::CrossEntropyAttributes{.softcap = cap};
  loss.inputs.resize(3);  // without a gradient, and so without its scale
  Region evaluate{.name = "evaluate_chunk",
                  .block = Block::head,
                  .part = Part::evaluate,
                  .loop = Loop::loss_chunks,
                  .ops = {logits, loss}};
  const Op sum = graph.region(Block::head, Part::backward).ops.front();
  Region total{.name = "evaluate_sum", .part = Part::evaluate, .ops = {sum}};

  // Sampling needs one row of logits for each sequence, in fp32.
  const Tensor features = graph.at(logits.inputs[0]), all = graph.at(logits.outputs[0]);
  const TensorId rows = graph.add({.name = "sample_rows",
                                   .dtype = features.dtype,
                                   .rows = graph.batch,
                                   .cols = features.cols,
                                   .pitch = features.pitch});
  const TensorId result = graph.add({.name = "sample_logits",
                                     .rows = graph.batch,
                                     .cols = all.cols,
                                     .pitch = all.pitch,
                                     .role = Role::output,
                                     .use = Use::sample_logits});
  Region sample{.name = "sample", .part = Part::sample};
  sample.ops.push_back(ops::make::gather_rows("gather_rows", {logits.inputs[0], graph.host(Use::positions)}, {rows}));
  logits.name = "sample_logits";
  logits.inputs[0] = rows;
  logits.outputs = {result};
  if (cap > 0) {
    const Tensor of_rows = graph.at(result);
    logits.outputs = {
        graph.add({.name = "sample_scores", .rows = of_rows.rows, .cols = of_rows.cols, .pitch = of_rows.pitch})};
  }
  const TensorId scores = logits.outputs[0];
  sample.ops.push_back(std::move(logits));
  if (cap > 0)
    sample.ops.push_back(ops::make::soft_cap("sample_soft_cap", {scores}, {result}, ops::SoftCapAttributes{cap}));

  graph.regions.push_back(std::move(evaluate));
  graph.regions.push_back(std::move(total));
  graph.regions.push_back(std::move(sample));

  const TensorId rules = graph.add_records("init_rules", Use::init_rules, Role::constant, "InitRule", sizeof(InitRule));
  graph.regions.push_back(
      {.name = "initialise",
       .part = Part::initialise,
       .ops = {ops::make::initialise("init_normal", {rules, graph.host(Use::chunks)}, {graph.host(Use::masters)},
                                     ops::InitialiseAttributes{spec.init.distribution})}});
  return graph;
}

}  // namespace llmc::passes
