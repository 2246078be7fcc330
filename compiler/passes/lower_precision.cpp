#include <set>

#include "compiler/passes/passes.h"

namespace llmc::passes {

using namespace graph;

Graph lower_precision(Graph graph, const spec::Spec& spec) {
    // What must stay fp32 is what reductions produce: statistics of rows, log-sum-exp, losses, workspaces.
  std::set<TensorId> exact;
  for (const Region& region : graph.regions)
    for (const Op& op : region.ops) switch (op.kind) {
        case OpKind::rms_norm:
        case OpKind::attention:
        case OpKind::attention_backward: exact.insert(op.outputs[1]); break;
        case OpKind::cross_entropy:
        case OpKind::loss_sum: exact.insert(op.outputs[0]); break;
        default: break;
      }
  // The residual stream is a long sum: rounding it to bf16 at every layer costs up to 1.5 times the gradient error of
  // rounding only what enters products. Its gradient is rounded, as the operand of products that it is.
  if (spec.residual == DType::f32) {
    exact.insert({graph.stream_in, graph.stream_out, graph.stream_final});
    for (const Region& region : graph.regions) {
      if (region.loop == Loop::layers_down || region.part == Part::backward) continue;
      for (const Op& op : region.ops)
        if (op.kind == OpKind::add || op.kind == OpKind::embedding) exact.insert(op.outputs[0]);
    }
  }
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    Tensor& t = graph.tensors[i];
    if (t.role == Role::activation && !exact.count(static_cast<TensorId>(i))) t.dtype = spec.compute;
  }
  return graph;
}

}  // namespace llmc::passes
