#include <fmt/format.h>

#include <algorithm>

#include "compiler/graph/orthogonal.h"
#include "compiler/ops/make.h"
#include "compiler/passes/passes.h"

namespace llmc::passes {

using namespace graph;

namespace {

/// Appends the ops that orthogonalise one matrix in place of its gradient.
class Orthogonalising {
 public:
  Orthogonalising(Graph& graph, const spec::Spec& spec, const OrthogonalMatrix& matrix, TensorId scalars,
                  std::int64_t layer_rows)
      : g_(graph),
        optimizer_(spec.optimizer),
        matrix_(matrix),
        compute_(spec.compute),
        scalars_(scalars),
        layer_rows_(layer_rows) {
    tall_ = matrix.rows > matrix.cols;
    rows_ = {matrix.first_row, matrix.rows};
    shape_ = fmt::format("{}_{}", matrix.rows, matrix.cols);
  }

  std::vector<Op> run() {
    const bool polar_express = optimizer_.muon_coefficients == spec::MuonCoefficients::polar_express;
    TensorId x = scaled(matrix_.gradient, "momentum", whole("x"), [&](TensorId norms, TensorId factors) {
      return ops::make::muon_factors("momentum_factors", {norms, scalars_}, {factors},
                                     size_of_matrix({.polar_express = polar_express}));
    });
    const std::vector<ops::Polynomial> all = ops::polynomials(optimizer_);
    for (std::size_t i = 0; i < all.size(); ++i)
      x = iteration(x, all[i], i, std::ranges::equal(all.front(), all.back()) ? "" : fmt::format("_{}", i + 1));
    scaled(x, "result", matrix_.gradient, [&](TensorId norms, TensorId factors) {
      if (!optimizer_.muon_neurons)
        return ops::make::muon_factors("result_factors", {norms, scalars_}, {factors},
                                       size_of_matrix({.of_result = true}));
      return ops::make::neuron_factors(
          "result_factors", {norms, scalars_, g_.host(Use::results), g_.host(Use::row_state)}, {factors},
          ops::NeuronAttributes{matrix_.group, matrix_.cols, matrix_.rows_before, layer_rows_});
    });
    return std::move(ops_);
  }

 private:
  TensorId matrix(const std::string& name, std::int64_t rows, std::int64_t cols) {
    const std::int64_t unit = vector_of(compute_);
    return g_.add({.name = fmt::format("{}_{}", matrix_.name, name),
                   .dtype = compute_,
                   .rows = rows,
                   .cols = cols,
                   .pitch = (cols + unit - 1) / unit * unit,
                   .scope = Scope::layer});
  }
  TensorId whole(const std::string& name) { return matrix(name, matrix_.rows, matrix_.cols); }
  TensorId square(const std::string& name) {
    const std::int64_t least = std::min(matrix_.rows, matrix_.cols);
    return matrix(name, least, least);
  }
  TensorId of_rows(const std::string& name) {
    return g_.add({.name = fmt::format("{}_{}", matrix_.name, name),
                   .rows = 1,
                   .cols = matrix_.rows,
                   .pitch = matrix_.rows,
                   .scope = Scope::layer});
  }

  ops::FactorAttributes size_of_matrix(ops::FactorAttributes factors) const {
    factors.group = matrix_.group;
    factors.cols = matrix_.cols;
    return factors;
  }

  /// Multiplies the rows of `from` by factors that follow from their norms: factors(norms, factors).
  template <class Factors>
  TensorId scaled(TensorId from, const std::string& what, TensorId to, Factors factors) {
    const TensorId norms = of_rows(what + "_norms"), factor = of_rows(what + "_factors");
    ops_.push_back(ops::make::row_norms(what + "_norms", {from}, {norms}, rows_));
    ops_.push_back(factors(norms, factor));
    ops_.push_back(ops::make::scale_rows("scale_" + what, {from, factor}, {to}, rows_));
    return to;
  }

  /// `own`: suffix of the products whose factors are the iteration's own.
  TensorId iteration(TensorId x, const ops::Polynomial& polynomial, std::size_t number, const std::string& own) {
    const auto [a, b, c] = polynomial;
    const std::string i = std::to_string(number + 1);
    const TensorId gram = square("gram_" + i), sum = square("polynomial_" + i), next = whole("x_" + i);
    const std::int64_t least = std::min(matrix_.rows, matrix_.cols);
    ops_.push_back(ops::make::product(
        "gram_" + i, {x, x}, {gram},
        ops::ProductAttributes{.name = "gram_" + shape_, .transpose_a = tall_, .transpose_b = !tall_}));
    ops_.push_back(ops::make::product(
        "polynomial_" + i, {gram, gram, gram}, {sum},
        ops::ProductAttributes{.name = fmt::format("polynomial_{}{}", least, own), .alpha = c, .beta = b}));
    const std::vector<TensorId> factors = tall_ ? std::vector{x, sum, x} : std::vector{sum, x, x};
    ops_.push_back(ops::make::product(
        "iterate_" + i, factors, {next},
        ops::ProductAttributes{.name = fmt::format("iterate_{}{}", shape_, own), .alpha = 1, .beta = a}));
    return next;
  }

  Graph& g_;
  const spec::Optimizer& optimizer_;
  const OrthogonalMatrix& matrix_;
  const DType compute_;
  const TensorId scalars_;
  const std::int64_t layer_rows_;  // of all matrices
  bool tall_ = false;              // more rows than columns
  ops::MatrixRows rows_;
  std::string shape_;
  std::vector<Op> ops_;
};

}  // namespace

void append_orthogonalising(Graph& graph, const spec::Spec& spec, TensorId scalars) {
  const std::vector<OrthogonalMatrix> matrices = orthogonal_matrices(graph, spec.optimizer.kind);
  for (std::size_t i = 0; i < matrices.size(); ++i)
    graph.regions.push_back(
        orthogonalising_region("orthogonalise_" + matrices[i].name, static_cast<int>(i),
                               Orthogonalising(graph, spec, matrices[i], scalars, rows_of(matrices)).run()));
}

}  // namespace llmc::passes
