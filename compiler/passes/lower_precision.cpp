#include <set>

#include "compiler/passes/passes.h"

namespace llmc::passes {

using namespace graph;

Graph lower_precision(Graph graph, const spec::Spec& spec) {
  if (spec.compute == spec::Dtype::fp32) return graph;
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
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    Tensor& t = graph.tensors[i];
    if (t.role == Role::activation && !exact.count(static_cast<TensorId>(i))) t.dtype = Dtype::bf16;
  }
  return graph;
}

}  // namespace llmc::passes
