#include <set>

#include "compiler/ops/op.h"
#include "compiler/passes/passes.h"

namespace llmc::passes {

using namespace graph;

Graph lower_precision(Graph graph, const spec::Spec& spec) {
  // The residual stream is a long sum: rounding it to bf16 at every layer raises the gradient error up to 1.5 times
  // over that of rounding operands of products alone. Its gradient is such an operand and is rounded.
  const bool wide_stream = spec.residual == DType::f32;
  std::set<TensorId> exact;
  if (wide_stream) exact = {graph.stream.first, graph.stream.below, graph.stream.above, graph.stream.last};
  for (const Region& region : graph.regions)
    for (const Op& op : region.ops) {
      const ops::OpRow& row = ops::row_of(op.kind);
      for (std::size_t i = 0; i < op.outputs.size(); ++i)
        if (row.exact & ops::output(static_cast<unsigned>(i))) exact.insert(op.outputs[i]);
      if (wide_stream && row.writes_stream && !region.is_backward()) exact.insert(op.outputs[0]);
    }
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    Tensor& t = graph.tensors[i];
    if (t.role == Role::activation && !exact.count(static_cast<TensorId>(i))) t.dtype = spec.compute;
  }
  return graph;
}

}  // namespace llmc::passes
