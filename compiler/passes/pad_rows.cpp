#include "compiler/passes/passes.h"

namespace llmc::passes {

using namespace graph;

namespace {

std::int64_t round_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace

Graph pad_rows(Graph graph, const spec::Spec& spec) {
  const std::int64_t unit = vector_of(spec.compute);  // elements in 16 bytes

  // A row of gate and up is [gate | padding | up | padding], so what makes it has rows of zeros where the padding is.
  for (Tensor& t : graph.tensors) {
    if (t.halves == 1) continue;
    const std::int64_t half = round_up(t.cols / t.halves, unit);
    t.cols = t.pitch = t.halves * half;
    for (std::size_t i = 0; i < t.pieces.size(); ++i) t.pieces[i].begin = static_cast<std::int64_t>(i) * half;
  }
  for (Region& region : graph.regions)
    for (Op& op : region.ops) {
      if (op.kind != OpKind::linear || graph.at(op.outputs[0]).halves == 1) continue;
      const std::int64_t columns = graph.at(op.outputs[0]).cols, half = columns / graph.at(op.outputs[0]).halves;
      const auto widen = [&](TensorId parameter, std::int64_t Tensor::* extent) {
        std::int64_t begin = 0;
        for (Piece& piece : graph.at(parameter).pieces) piece.begin = begin, begin += half;
        for (TensorId id : {parameter, graph.at(parameter).partner}) graph.at(id).*extent = columns;
      };
      widen(op.inputs[1], &Tensor::rows);
      if (op.as<ops::LinearAttributes>().bias) widen(op.inputs[2], &Tensor::cols);
    }

  for (Tensor& t : graph.tensors) {
    const bool row_matrix =
        t.role == Role::parameter || t.role == Role::gradient || (t.role == Role::activation && graph.row_a_token(t));
    if (row_matrix) t.pitch = round_up(t.cols, unit);
  }
  return graph;
}

}  // namespace llmc::passes
