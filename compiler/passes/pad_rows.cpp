#include "compiler/ops/op.h"
#include "compiler/passes/passes.h"

namespace llmc::passes {

using namespace graph;

namespace {

std::int64_t round_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace

Graph pad_rows(Graph graph, const spec::Spec& spec) {
  const std::int64_t unit = vector_of(spec.compute);  // elements in 16 bytes

  // A row of gate and up is [gate | padding | up | padding]: the matrix that produces it needs rows of zeros at the
  // padding.
  for (Tensor& t : graph.tensors) {
    if (t.halves == 1) continue;
    const std::int64_t half = round_up(t.cols / t.halves, unit);
    t.cols = t.pitch = t.halves * half;
    for (std::size_t i = 0; i < t.pieces.size(); ++i) t.pieces[i].begin = static_cast<std::int64_t>(i) * half;
  }
  for (const Region& region : graph.regions)
    for (const Op& op : region.ops) {
      const ops::InputSet makers = ops::row_of(op.kind).column_makers(op);
      if (!makers || graph.at(op.outputs[0]).halves == 1) continue;
      const std::int64_t columns = graph.at(op.outputs[0]).cols, half = columns / graph.at(op.outputs[0]).halves;
      for (unsigned i = 0; i < op.inputs.size(); ++i) {
        if (!(makers & ops::input(i))) continue;
        Tensor& parameter = graph.at(op.inputs[i]);
        std::int64_t begin = 0;
        for (ParameterPiece& piece : parameter.pieces) piece.begin = begin, begin += half;
        const auto extent = parameter.pieces[0].matrix ? &Tensor::rows : &Tensor::cols;
        for (Tensor* t : {&parameter, &graph.at(parameter.partner)}) t->*extent = columns;
      }
    }

  for (Tensor& t : graph.tensors) {
    const bool row_matrix =
        t.role == Role::parameter || t.role == Role::gradient || (t.role == Role::activation && graph.row_a_token(t));
    if (row_matrix) t.pitch = round_up(t.cols, unit);
  }
  return graph;
}

}  // namespace llmc::passes
