#include "compiler/passes/passes.h"

namespace llmc::passes {

using namespace graph;

namespace {

std::int64_t round_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace

Graph pad_rows(Graph graph, const spec::Spec& spec) {
  const std::int64_t unit = vector_of(spec.compute);
  const std::int64_t half = round_up(spec.model.intermediate_size, unit);

  // A gate_up row is [gate | padding | up | padding], so the weight has rows of zeros where the padding is.
  for (Region& region : graph.regions)
    for (Op& op : region.ops)
      if (op.kind == OpKind::linear && op.name == "gate_up") {
        graph.at(op.outputs[0]).cols = graph.at(op.outputs[0]).pitch = 2 * half;
        graph.at(op.inputs[1]).rows = graph.at(graph.at(op.inputs[1]).partner).rows = 2 * half;
        if (op.bias)
          for (TensorId id : {op.inputs[2], graph.at(op.inputs[2]).partner})
            graph.at(id).cols = graph.at(id).pitch = 2 * half;
      } else if (op.kind == OpKind::swiglu_backward) {
        graph.at(op.outputs[0]).cols = graph.at(op.outputs[0]).pitch = 2 * half;
      }

  for (Tensor& t : graph.tensors) {
    const bool row_matrix = t.role == Role::parameter || t.role == Role::gradient ||
                            (t.role == Role::activation && t.rows == graph.tokens());
    if (row_matrix) t.pitch = round_up(t.cols, unit);
  }
  return graph;
}

}  // namespace llmc::passes
