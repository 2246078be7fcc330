#include <algorithm>
#include <iterator>

#include "compiler/passes/passes.h"
#include "error.h"

namespace llmc::passes {

using namespace graph;

namespace {

Op take(Region& region, OpKind kind) {
  const auto op = std::find_if(region.ops.begin(), region.ops.end(), [&](const Op& o) { return o.kind == kind; });
  if (op == region.ops.end())
    throw Failure(Exit::internal, "chunk_loss: no " + std::string(name_of(kind)) + " in region " + region.name);
  Op taken = *op;
  region.ops.erase(op);
  return taken;
}

/// Takes the ops that sum over all tokens of the micro-batch what the step reports.
std::vector<Op> take_reports(Region& head, const Graph& graph) {
  const auto reports = [&](const Op& op) {
    return std::ranges::any_of(op.outputs, [&](TensorId id) { return graph.at(id).role == Role::output; });
  };
  std::vector<Op> taken;
  std::ranges::copy_if(head.ops, std::back_inserter(taken), reports);
  std::erase_if(head.ops, reports);
  return taken;
}

}  // namespace

Graph chunk_loss(Graph graph, const Choice& choice) {
  Region& head = graph.region(Block::head, Part::forward);
  Region& backward = graph.region(Block::head, Part::backward);
  const Op logits = take(head, OpKind::linear);
  Op loss = take(head, OpKind::cross_entropy);
  const std::vector<Op> sums = take_reports(head, graph);
  take(backward, OpKind::cross_entropy_backward);
  Op wgrad = take(backward, OpKind::linear_wgrad), dgrad = take(backward, OpKind::linear_dgrad);

  // The scale 1/targets is known before the step, so the gradient can overwrite the logits at once.
  loss.as<ops::CrossEntropyAttributes>().gradient = true;
  const TensorId dlogits = logits.outputs[0];
  wgrad.inputs[0] = dgrad.inputs[0] = dlogits;

  graph.chunk_rows = choice.loss_chunk;
  graph.at(dlogits).rows = choice.loss_chunk;
  if (choice.loss_chunk < graph.tokens()) graph.at(dlogits).axis = Axis::chunk;
  Region chunks{.name = "loss_chunk", .block = Block::head, .part = Part::loss, .loop = Loop::loss_chunks};
  chunks.ops = {logits, loss, dgrad, wgrad};
  backward.ops.insert(backward.ops.begin(), sums.begin(), sums.end());
  // The rest of the head, the final norm, also runs for evaluation and sampling.
  graph.regions.insert(graph.regions.begin() + (&backward - graph.regions.data()), std::move(chunks));
  return graph;
}

}  // namespace llmc::passes
