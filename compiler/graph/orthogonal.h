// Lists the matrices that an optimizer orthogonalises (Muon).
#pragma once

#include <string>
#include <vector>

#include "compiler/graph/graph.h"

namespace llmc::graph {

/// A matrix of a checkpoint in each layer: q, k and v are three, although one parameter holds them.
struct OrthogonalMatrix {
  std::string name;  // "q_proj"
  TensorId gradient = kNone;
  int group = 0;               // index into Graph::groups
  std::int64_t first_row = 0;  // of the gradient
  std::int64_t rows = 0, cols = 0, pitch = 0;
  std::int64_t rows_before = 0;  // of the layer's matrices before it

  /// Elements of the gradient before it, and its own, the padding of rows included.
  std::int64_t begin() const { return first_row * pitch; }
  std::int64_t elements() const { return rows * pitch; }
};

/// Returns a layer's matrices whose groups' optimizer orthogonalises, `kind` where a group names none, in the order of
/// parameters. Empty for any other optimizer.
std::vector<OrthogonalMatrix> orthogonal_matrices(const Graph& graph, OptimizerKind kind);

/// Returns the rows of all of them.
std::int64_t rows_of(const std::vector<OrthogonalMatrix>& matrices);

/// Returns the FLOPs of the iterations of Newton and Schulz on each of these matrices.
std::vector<double> orthogonalising_flops(const std::vector<OrthogonalMatrix>& matrices, std::int64_t iterations);

}  // namespace llmc::graph
