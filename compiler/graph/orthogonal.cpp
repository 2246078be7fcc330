#include "compiler/graph/orthogonal.h"

#include <algorithm>

#include "program/optimizers.h"

namespace llmc::graph {

namespace {

/// "self_attn.q_proj.weight" -> "q_proj".
std::string short_name(const std::string& full) {
  const std::size_t end = full.rfind('.'), begin = full.rfind('.', end - 1);
  return full.substr(begin + 1, end - begin - 1);
}

}  // namespace

std::vector<OrthogonalMatrix> orthogonal_matrices(const Graph& graph, OptimizerKind kind) {
  std::vector<OrthogonalMatrix> matrices;
  for (const Tensor& t : graph.tensors) {
    if (t.role != Role::parameter || t.block != Block::layer) continue;
    for (const ParameterPiece& piece : t.pieces) {
      const ParameterGroup& group = graph.groups[static_cast<std::size_t>(piece.group)];
      if (!piece.matrix || !row_of(group.optimizer.value_or(kind)).orthogonalises) continue;
      matrices.push_back({short_name(piece.name), t.partner, piece.group, piece.begin, piece.size, t.cols, t.pitch,
                          rows_of(matrices)});
    }
  }
  return matrices;
}

std::int64_t rows_of(const std::vector<OrthogonalMatrix>& matrices) {
  return matrices.empty() ? 0 : matrices.back().rows_before + matrices.back().rows;
}

std::vector<double> orthogonalising_flops(const std::vector<OrthogonalMatrix>& matrices, std::int64_t iterations) {
  std::vector<double> flops;
  for (const OrthogonalMatrix& matrix : matrices) {
    const auto least = static_cast<double>(std::min(matrix.rows, matrix.cols)),
               most = static_cast<double>(std::max(matrix.rows, matrix.cols));
    flops.push_back(static_cast<double>(iterations) * (4 * least * least * most + 2 * least * least * least));
  }
  return flops;
}

}  // namespace llmc::graph
