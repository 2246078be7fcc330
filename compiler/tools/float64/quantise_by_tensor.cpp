// quantise_by_tensor: whole tensors as numbers of 8 bits times a power of two.
#include "compiler/ops/quantising/quantise_by_tensor.h"

#include <algorithm>
#include <cmath>

#include "compiler/tools/float64/formats.h"
#include "compiler/tools/float64/rules.h"

namespace llmc::float64 {
namespace {

/// Returns the scale of all of run.in(0).
double tensor_scale(const OpRun& run, const Format& format) {
  const Matrix& maxima = run.in(1);
  return scale_of(*std::max_element(maxima.data, maxima.data + maxima.cols), format);
}

const Format& format_of(const OpRun& run) {
  return run.op.as<ops::CodeAttributes>().code == DType::e5m2 ? kE5m2 : kE4m3;
}

}  // namespace

/// The maxima are those of blocks of rows.
void largest_magnitude(OpRun& run) {
  const Matrix &x = run.in(0), &maxima = run.out(0);
  run.outputs[0].exact = true;
  for (std::int64_t block = 0; block < maxima.cols; ++block) {
    double& largest = maxima.data[block] = 0;
    for (std::int64_t i = block * x.rows / maxima.cols; i < (block + 1) * x.rows / maxima.cols; ++i)
      for (std::int64_t j = 0; j < x.cols; ++j)
        largest = std::isfinite(x.at(i, j)) ? std::max(largest, std::abs(x.at(i, j))) : HUGE_VAL;
  }
}

void quantise_by_tensor(OpRun& run) {
  const Matrix &x = run.in(0), &y = run.out(0);
  const Format& format = format_of(run);
  const double scale = run.out(1).data[0] = tensor_scale(run, format);
  const bool codes = has_codes(run.graph.at(run.op.outputs[0]).dtype);
  for (OpValue& result : run.outputs) result.exact = true;
  for (std::int64_t i = 0; i < x.rows; ++i)
    for (std::int64_t j = 0; j < x.cols; ++j) y.at(i, j) = nearest(x.at(i, j) / scale, format) * (codes ? 1 : scale);
}

void quantise_by_tensor_transposed(OpRun& run) {
  const Matrix &x = run.in(0), &transposed = run.out(0);
  const Format& format = format_of(run);
  const double scale = run.out(1).data[0] = tensor_scale(run, format);
  for (OpValue& result : run.outputs) result.exact = true;
  for (std::int64_t i = 0; i < x.rows; ++i)
    for (std::int64_t j = 0; j < x.cols; ++j) {
      const double code = transposed.at(j, i) = nearest(x.at(i, j) / scale, format);
      if (run.outputs.size() == 3) run.out(2).at(i, j) = code;
    }
}

}  // namespace llmc::float64
