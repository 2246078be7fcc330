// Declares the attributes of the ops that orthogonalise matrices.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "spec/spec.h"

namespace llmc::ops {

/// Inputs of muon_momentum.
enum MomentumInput : unsigned {
  kMomentumResults,
  kMomentumGradients,
  kMomentumChunks,
  kMomentumScalars,
  kMomentumState
};

/// Of row_norms and scale_rows: the rows of a gradient that are the matrix. The op's other matrix has these alone.
struct MatrixRows {
  std::int64_t first = 0, count = 0;
  std::string text() const;
};

/// Of muon_factors.
struct FactorAttributes {
  int group = 0;               // index into Graph::groups
  std::int64_t cols = 0;       // of the matrix; its rows are those of the norms
  bool of_result = false;      // for the result of the iterations; else for their input
  bool polar_express = false;  // of an input: it is divided by 1.02 norm + 1e-6, not by the norm or 1e-7
  std::string text() const;
};

/// Inputs of neuron_factors.
enum NeuronInput : unsigned { kNeuronNorms, kNeuronScalars, kNeuronResults, kNeuronMoments };

/// Of neuron_factors.
struct NeuronAttributes {
  int group = 0;                 // index into Graph::groups
  std::int64_t cols = 0;         // of the matrix; its rows are those of the norms
  std::int64_t rows_before = 0;  // of the layer's matrices before it
  std::int64_t layer_rows = 0;   // of all matrices of a layer: elements of the moments
  std::string text() const;
};

/// Of product: D = alpha op(A) op(B) + beta C.
struct ProductAttributes {
  std::string name;  // of the product: equal matrices share one
  bool transpose_a = false, transpose_b = false;
  double alpha = 1, beta = 0;
  std::string text() const;
};

/// Address in state that has an element for each row of a layer's matrices.
std::string row_state(const std::string& state, std::int64_t rows_before, std::int64_t layer_rows);

/// Coefficients of X <- a X + (b A + c A A) X with A = X X^T.
using Polynomial = std::array<double, 3>;

/// Returns the polynomial of each iteration.
std::vector<Polynomial> polynomials(const spec::Optimizer& optimizer);

}  // namespace llmc::ops
