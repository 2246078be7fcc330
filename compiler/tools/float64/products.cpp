// linear: y = x W^T (+ bias) (+ residual), and the two products of its backward pass.
#include <algorithm>
#include <cmath>

#include "compiler/tools/float64/arithmetic.h"
#include "compiler/tools/float64/rules.h"

namespace llmc::float64 {
namespace {

bool scaled(const OpRun& run) { return has_codes(run.input_type(0)); }

/// Scale of row `i`: its own, or that of the whole operand.
double scale_of(const Matrix& scales, std::size_t i) { return scales.data[scales.cols == 1 ? 0 : i]; }

/// Bounds a product's error. The sum of k products in fp32 has an error of some units in the last place times the sum
/// of their magnitudes. That sum is at most the product of the norms of row and column (Cauchy and Schwarz). The part
/// of each term that bf16x3 leaves out is relative to the same sum.
///
/// Operands that are codes have scales: inputs 2 and 3. The product is multiplied by `factor`.
void product(OpRun& run, bool transpose_a, bool transpose_b, bool adds, double factor) {
  const Matrix &a = run.in(0), &b = run.in(1), &d = run.out(0);
  OpValue& result = run.outputs[0];
  const double k = static_cast<double>(transpose_a ? a.rows : a.cols);
  result.noise = (8 + std::sqrt(k) / 2) * kFp32 + run.left_out;
  result.flushed = k * kFlushed;
  std::vector<double>& scale = result.scales();
  if (adds)
    for (std::int64_t i = 0; i < d.rows; ++i) scale[static_cast<std::size_t>(i)] = largest(d.cols, d.row(i));
  std::vector<double> before;
  if (adds && (scaled(run) || factor != 1))
    for (std::int64_t i = 0; i < d.rows; ++i) before.insert(before.end(), d.row(i), d.row(i) + d.cols);
  multiply(a, transpose_a, b, transpose_b, d, adds && before.empty());
  std::vector<double> rows = row_norms_of(a, transpose_a), cols = row_norms_of(b, !transpose_b);
  if (scaled(run)) {
    for (std::int64_t i = 0; i < d.rows; ++i)
      for (std::int64_t j = 0; j < d.cols; ++j) {
        d.at(i, j) *=
            scale_of(run.in(2), static_cast<std::size_t>(i)) * scale_of(run.in(3), static_cast<std::size_t>(j));
        if (!before.empty()) d.at(i, j) += before[static_cast<std::size_t>(i * d.cols + j)];
      }
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] *= scale_of(run.in(2), i);
    for (std::size_t j = 0; j < cols.size(); ++j) cols[j] *= scale_of(run.in(3), j);
  }
  if (factor != 1)
    for (std::int64_t i = 0; i < d.rows; ++i)
      for (std::int64_t j = 0; j < d.cols; ++j) {
        const std::size_t at = static_cast<std::size_t>(i * d.cols + j);
        const double added = before.empty() ? 0 : before[at];
        d.at(i, j) = added + factor * (scaled(run) ? d.at(i, j) - added : d.at(i, j));
      }
  for (double& row : rows) row *= factor;
  const double widest = *std::max_element(cols.begin(), cols.end());
  for (std::size_t i = 0; i < scale.size(); ++i)
    scale[i] += rows[i] * widest + run.cut / result.noise * largest(d.cols, d.row(static_cast<std::int64_t>(i)));
}

}  // namespace

void linear(OpRun& run) {
  const auto [bias, residual, factor] = run.op.as<ops::LinearAttributes>();
  product(run, false, true, false, factor);
  const Matrix& d = run.out(0);
  for (std::int64_t i = 0; i < d.rows; ++i) {
    double& scale = run.outputs[0].scale[static_cast<std::size_t>(i)];
    const std::size_t of_bias = scaled(run) ? 4 : 2;
    if (bias) add_scaled(d.cols, 1, run.in(of_bias).row(0), d.row(i));
    if (bias) scale += largest(d.cols, run.in(of_bias).row(0));
    if (residual) add_scaled(d.cols, 1, run.inputs.back().matrix.row(i), d.row(i));
    if (residual) scale += largest(d.cols, run.inputs.back().matrix.row(i));
  }
}

/// The codes of a weight are transposed. The result may be in the buffer of the residual.
void linear_dgrad(OpRun& run) {
  const auto [bias, residual, factor] = run.op.as<ops::LinearAttributes>();
  const Matrix &d = run.out(0), &added = run.inputs.back().matrix;
  std::vector<double> before;
  for (std::int64_t i = 0; residual && i < d.rows; ++i)
    before.insert(before.end(), added.row(i), added.row(i) + d.cols);
  product(run, false, scaled(run), false, factor);
  for (std::int64_t i = 0; residual && i < d.rows; ++i) {
    const double* row = before.data() + i * d.cols;
    add_scaled(d.cols, 1, row, d.row(i));
    run.outputs[0].scale[static_cast<std::size_t>(i)] += largest(d.cols, row);
  }
}

/// Codes are transposed.
void linear_wgrad(OpRun& run) {
  if (scaled(run)) return product(run, false, true, run.adds, ops::scale_of(run.op));
  product(run, true, false, run.adds, ops::scale_of(run.op));
}

}  // namespace llmc::float64
