// quantise: rows as e4m3 numbers times a power of two.
#include <algorithm>
#include <cmath>

#include "compiler/tools/float64/rules.h"

namespace llmc::float64 {
namespace {

/// Rounds to the nearest multiple of 2^-3 of v's own power of two, which is at least 2^-6; ties to even.
double nearest_e4m3(double v) {
  const double step = std::ldexp(1.0, v == 0 ? -9 : std::max(std::ilogb(v), -6) - 3);
  return std::nearbyint(v / step) * step;
}

/// Returns the smallest power of two, from 2^-100 on, by which `largest` divided is at most 448.
double scale_of(double largest) {
  if (!std::isfinite(largest)) return std::nan("");
  return largest == 0 ? 0x1p-100 : std::max(0x1p-100, std::exp2(std::ceil(std::log2(largest / 448))));
}

/// Returns the scale of row `i` of x, whose columns are multiplied by `factors`; null: by 1. Of a weight it is at least
/// 2^-16.
double row_scale(const Matrix& x, const double* factors, std::int64_t i, bool weight) {
  double largest = 0;
  for (std::int64_t j = 0; j < x.cols; ++j) {
    const double v = std::abs(x.at(i, j) * (factors ? factors[j] : 1));
    if (!(v <= largest)) largest = v;
    if (std::isnan(largest)) break;
  }
  const double scale = scale_of(largest);
  return weight && scale < 0x1p-16 ? 0x1p-16 : scale;
}

}  // namespace

void quantise(OpRun& run) {
  const Matrix &x = run.in(0), &y = run.out(0), &scales = run.out(1);
  const double* factors = run.inputs.size() == 2 ? run.in(1).row(0) : nullptr;
  const bool codes = run.graph.at(run.op.outputs[0]).dtype == DType::e4m3;
  const graph::Role role = run.graph.at(run.op.inputs[0]).role;
  const bool weight = role == graph::Role::parameter || role == graph::Role::copy;
  for (OpValue& result : run.outputs) result.exact = true;
  for (std::int64_t i = 0; i < x.rows; ++i) {
    const double scale = scales.data[i] = row_scale(x, factors, i, weight);
    for (std::int64_t j = 0; j < x.cols; ++j) {
      const double factor = factors ? factors[j] : 1, code = nearest_e4m3(x.at(i, j) * factor / scale);
      y.at(i, j) = codes ? code : code * scale / factor;
    }
  }
}

void quantise_transposed(OpRun& run) {
  const Matrix &w = run.in(0), &y = run.out(0), &scales = run.out(1), &ones = run.out(2);
  for (OpValue& result : run.outputs) result.exact = true;
  for (std::int64_t i = 0; i < w.rows; ++i) {
    scales.data[i] = row_scale(w, nullptr, i, true);
    for (std::int64_t j = 0; j < w.cols; ++j) y.at(j, i) = nearest_e4m3(w.at(i, j) / scales.data[i]);
  }
  std::fill_n(ones.data, ones.cols, 1.0);
}

void share_scale(OpRun& run) {
  const Matrix &x = run.in(0), &scales = run.in(1), &y = run.out(0);
  const double* factors = run.inputs.size() == 3 ? run.in(2).row(0) : nullptr;
  const bool codes = run.input_type(0) == DType::e4m3;
  const double shared = *std::max_element(scales.data, scales.data + scales.cols);
  for (OpValue& result : run.outputs) result.exact = true;
  run.out(1).data[0] = shared;
  for (std::int64_t i = 0; i < x.rows; ++i)
    for (std::int64_t j = 0; j < x.cols; ++j) {
      const double factor = factors ? factors[j] : 1;
      if (codes)
        y.at(j, i) = nearest_e4m3(x.at(i, j) * scales.data[i] / shared);
      else
        y.at(i, j) = nearest_e4m3(x.at(i, j) * factor / shared) * shared / factor;
    }
  if (codes)
    for (std::int64_t j = 0; j < x.cols; ++j) run.out(2).data[j] = shared / (factors ? factors[j] : 1);
}

}  // namespace llmc::float64
