// Muon (Jordan et al. 2024): momentum, the products that orthogonalise its direction, and the update.
#include "compiler/ops/muon/muon.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "compiler/ops/update.h"
#include "compiler/tools/float64/arithmetic.h"
#include "compiler/tools/float64/rules.h"
#include "compiler/tools/float64/update.h"

namespace llmc::float64 {

using namespace ops;

namespace {

/// The rows of an operand that are the op's matrix.
Matrix matrix_of(const OpRun& run, graph::TensorId id, const Matrix& whole) {
  if (run.graph.at(id).role != graph::Role::gradient) return whole;
  const MatrixRows& rows = run.op.as<MatrixRows>();
  return {whole.row(rows.first), rows.count, whole.cols, whole.pitch};
}

}  // namespace

/// With g = gradient clip_scale: m = mu m + (1 - mu) g, and in place of the gradient mu m + (1 - mu) g.
void muon_momentum(OpRun& run) {
  const auto* results = run.records_in<StepResults>(kMomentumResults);
  OpValue &gradients = run.inputs[kMomentumGradients], &state = run.inputs[kMomentumState];
  gradients.scales(gradients.matrix.cols);
  state.scales(state.matrix.cols);
  if (results->skipped) return;
  const auto* scalars = run.records_in<MuonScalars>(kMomentumScalars);
  const GroupSet groups = run.op.as<UpdateAttributes>().groups;
  for (const Chunk& chunk : chunks_of(run, kMomentumChunks)) {
    if (!holds(groups, chunk.group)) continue;
    const MuonScalars& own = scalars[chunk.group];
    const auto mu = static_cast<double>(own.momentum[results->updates - own.updates > 1]);
    for (int e = 0; e < chunk.length; ++e) {
      const auto at = static_cast<std::size_t>(chunk.offset + e),
                 of_state = static_cast<std::size_t>(chunk.state - run.state_begin + e);
      double &g = gradients.matrix.data[at], &m = state.matrix.data[of_state];
      const double clipped = g * static_cast<double>(results->clip_scale), terms = std::abs(m) + std::abs(clipped);
      m = mu * m + (1 - mu) * clipped;
      g = mu * m + (1 - mu) * clipped;
      gradients.scale[at] = state.scale[of_state] = terms;
    }
  }
}

void row_norms(OpRun& run) {
  const Matrix x = matrix_of(run, run.op.inputs[0], run.in(0));
  run.outputs[0].relative = 64 * kFp32;  // of a sum of squares
  run.outputs[0].flushed = std::sqrt(static_cast<double>(x.cols) * kFlushed);
  for (std::int64_t i = 0; i < x.rows; ++i) run.out(0).data[i] = std::sqrt(dot(x.cols, x.row(i), x.row(i)));
}

namespace {

/// Factor on an orthogonalised matrix.
double size_of(const MuonScalars& scalars, double rows, double cols) {
  return scalars.original ? std::sqrt(std::max(1.0, rows / cols)) : 0.2 * std::sqrt(std::max(rows, cols));
}

}  // namespace

/// v = beta2 v + (1 - beta2) mean(x^2) of each row, and with f = 1 / (sqrt(v) + eps) the factors
/// size sqrt(min(rows, cols)) f / |f x|, at most 1e38 eps f. With `equilibrate` v is of x sqrt(min(rows, cols)) / |x|.
void neuron_factors(OpRun& run) {
  const auto& [group, cols, rows_before, layer_rows] = run.op.as<NeuronAttributes>();
  const MuonScalars& scalars = run.records_in<MuonScalars>(kNeuronScalars)[group];
  const Matrix &norms = run.in(kNeuronNorms), &factors = run.out(0);
  double* const moments = run.in(kNeuronMoments).data + run.layer * layer_rows + rows_before;
  const bool skipped = run.records_in<StepResults>(kNeuronResults)->skipped;
  const auto rows = static_cast<double>(norms.cols), width = static_cast<double>(cols);
  const double wanted = std::sqrt(std::min(rows, width)), norm = std::sqrt(dot(norms.cols, norms.data, norms.data)),
               even = scalars.equilibrate ? wanted / std::max(norm, 1e-7) : 1;
  double squares = 0;
  for (std::int64_t i = 0; i < norms.cols; ++i) {
    const double n = norms.data[i], x = n * even, beta2 = static_cast<double>(scalars.beta2);
    if (!skipped) moments[i] = beta2 * moments[i] + (1 - beta2) * x * x / width;
    factors.data[i] = 1 / (std::sqrt(moments[i]) + static_cast<double>(scalars.eps));
    squares += n * factors.data[i] * n * factors.data[i];
  }
  const double most = 1e38 * static_cast<double>(scalars.eps),
               size = std::min(size_of(scalars, rows, width) * wanted / std::max(std::sqrt(squares), 1e-7), most);
  for (std::int64_t i = 0; i < norms.cols; ++i) factors.data[i] *= size;
  run.outputs[0].relative = 64 * kFp32;  // of a sum of squares
}

void muon_factors(OpRun& run) {
  const auto& [group, cols, of_result, polar_express] = run.op.as<FactorAttributes>();
  const MuonScalars& scalars = run.records_in<MuonScalars>(1)[group];
  const Matrix &norms = run.in(0), &factors = run.out(0);
  constexpr double kLeast = 1e-7;
  run.outputs[0].relative = 64 * kFp32;
  const auto rows = static_cast<double>(norms.cols), width = static_cast<double>(cols);
  double squares = 0, sum = 0, filled = 0;  // rows that are not zeros: only these are brought to the mean norm
  for (std::int64_t i = 0; i < norms.cols; ++i) {
    const double n = norms.data[i];
    squares += n * n, sum += n, filled += n > 0;
  }
  const double norm = std::sqrt(squares), mean = sum / rows;
  const double size = size_of(scalars, rows, width);
  for (std::int64_t i = 0; i < norms.cols; ++i) {
    double& factor = factors.data[i];
    if (of_result) {
      factor = scalars.equilibrate ? size * std::sqrt(std::min(rows, width)) / std::max(norm, kLeast) : size;
      continue;
    }
    const double whole = scalars.equilibrate ? mean * std::sqrt(filled) : norm;
    factor = 1 / (polar_express ? 1.02 * whole + 1e-6 : std::max(whole, kLeast));
    if (scalars.equilibrate) factor = norms.data[i] > 0 ? factor * mean / norms.data[i] : 0;
  }
}

void scale_rows(OpRun& run) {
  const Matrix x = matrix_of(run, run.op.inputs[0], run.in(0)), y = matrix_of(run, run.op.outputs[0], run.out(0));
  for (std::int64_t i = 0; i < y.rows; ++i)
    for (std::int64_t j = 0; j < y.cols; ++j) y.at(i, j) = x.at(i, j) * run.in(1).data[i];
}

/// Bounds the error as that of a linear layer's product.
void product(OpRun& run) {
  const auto& [name, transpose_a, transpose_b, alpha, beta] = run.op.as<ProductAttributes>();
  const Matrix &a = run.in(0), &b = run.in(1), &d = run.out(0);
  OpValue& result = run.outputs[0];
  const double k = static_cast<double>(transpose_a ? a.rows : a.cols);
  result.noise = (8 + std::sqrt(k) / 2) * kFp32;
  multiply(a, transpose_a, b, transpose_b, d, false);
  const std::vector<double> rows = row_norms_of(a, transpose_a), cols = row_norms_of(b, !transpose_b);
  const double widest = *std::max_element(cols.begin(), cols.end());
  std::vector<double>& scale = result.scales();
  for (std::int64_t i = 0; i < d.rows; ++i) {
    for (std::int64_t j = 0; j < d.cols; ++j) d.at(i, j) *= alpha;
    scale[static_cast<std::size_t>(i)] = std::abs(alpha) * rows[static_cast<std::size_t>(i)] * widest;
    if (beta == 0) continue;
    const double* const c = run.in(2).row(i);
    add_scaled(d.cols, beta, c, d.row(i));
    scale[static_cast<std::size_t>(i)] += std::abs(beta) * largest(d.cols, c);
  }
}

/// p = p (1 - lr weight_decay) - lr direction; with `cautious` a weight whose direction has another sign does not
/// decay.
void muon(OpRun& run) {
  // The direction is not clipped.
  auto* results = run.records_in<StepResults>(kUpdateResults);
  const float clip = std::exchange(results->clip_scale, 1.0f);
  update(run, [](UpdateElement& e, const void* record) {
    const bool cautious = static_cast<const MuonScalars*>(record)->cautious;
    const double before = e.weight;
    const bool decays = !cautious || e.gradient * before >= 0;
    e.weight = before * (decays ? 1 - e.lr * e.weight_decay : 1.0) - e.lr * e.gradient;
    e.weight_scale = std::abs(before) + e.lr * std::abs(e.gradient);
  });
  results->clip_scale = clip;
}

}  // namespace llmc::float64
