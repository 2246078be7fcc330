// quantise: rows as e4m3 numbers times a power of two, as an op or as the end of another.
#include "compiler/ops/quantising/quantise.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "compiler/tools/float64/formats.h"
#include "compiler/tools/float64/rules.h"

namespace llmc::float64 {
namespace {

double nearest_e4m3(double v) { return nearest(v, kE4m3); }
double scale_of(double largest) { return scale_of(largest, kE4m3); }

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

/// How far a kernel's number, in bf16, may be from an element of a result.
double distance(const OpValue& result, std::int64_t i, std::int64_t j) {
  return (kBf16 + result.relative) * std::abs(result.matrix.at(i, j)) + result.noise * result.scale_at(i, j);
}

/// Sets what a kernel may give for a result's codes and scales: those of all numbers that it may have rounded.
void bound(const OpValue& result, const double* factors, bool codes, OpValue& y, OpValue& scales) {
  const Matrix& x = result.matrix;
  for (std::vector<double>* of : {&y.least, &y.most}) of->resize(static_cast<std::size_t>(x.rows * x.cols));
  for (std::vector<double>* of : {&scales.least, &scales.most}) of->resize(static_cast<std::size_t>(x.rows));
  for (std::int64_t i = 0; i < x.rows; ++i) {
    double largest = 0, least = 0, most = 0;
    for (std::int64_t j = 0; j < x.cols; ++j) {
      const double factor = factors ? factors[j] : 1, v = std::abs(x.at(i, j)), t = distance(result, i, j);
      largest = std::max(largest, v * factor), least = std::max(least, (v - t) * factor);
      most = std::max(most, (v + t) * factor);
    }
    const auto row = static_cast<std::size_t>(i);
    const double scale = scales.matrix.data[i] = scale_of(largest);
    const double between[] = {scales.least[row] = scale_of(least), scales.most[row] = scale_of(most)};
    for (std::int64_t j = 0; j < x.cols; ++j) {
      const double factor = factors ? factors[j] : 1, t = distance(result, i, j);
      const auto stored = [&](double v, double s) {
        const double code = nearest_e4m3(v * factor / s);
        return codes ? code : code * s / factor;
      };
      y.matrix.at(i, j) = stored(x.at(i, j), scale);
      const auto at = static_cast<std::size_t>(i * x.cols + j);
      y.least[at] = std::min(stored(x.at(i, j) - t, between[0]), stored(x.at(i, j) - t, between[1]));
      y.most[at] = std::max(stored(x.at(i, j) + t, between[0]), stored(x.at(i, j) + t, between[1]));
    }
  }
}

/// Same for codes that are transposed and share a scale, where those of the rows are known.
void bound_transposed(const OpValue& result, const double* row_scales, double shared, OpValue& y, OpValue& scales) {
  const Matrix& x = result.matrix;
  for (std::vector<double>* of : {&y.least, &y.most}) of->resize(static_cast<std::size_t>(x.rows * x.cols));
  scales.exact = true;
  for (std::int64_t j = 0; j < x.cols; ++j) {
    scales.matrix.data[j] = shared;
    for (std::int64_t i = 0; i < x.rows; ++i) {
      const double t = distance(result, i, j);
      const auto code = [&](double v) {
        return nearest_e4m3(nearest_e4m3(v / row_scales[i]) * row_scales[i] / shared);
      };
      y.matrix.at(j, i) = code(x.at(i, j));
      const auto at = static_cast<std::size_t>(j * x.rows + i);
      y.least[at] = code(x.at(i, j) - t), y.most[at] = code(x.at(i, j) + t);
    }
  }
}

}  // namespace

void quantised(OpRun& run, void (*rule)(OpRun&)) {
  graph::Op op = run.op;
  op.quantised.clear();
  op.inputs.resize(ops::own_inputs(run.op));
  op.outputs.resize(ops::own_outputs(run.op));
  OpRun own{run.graph, run.region, op, {}, {}, run.adds, run.seed, run.left_out, run.state_begin};
  for (std::size_t i = 0; i < op.inputs.size(); ++i) own.inputs.push_back(std::move(run.inputs[i]));
  for (std::size_t i = 0; i < op.outputs.size(); ++i) own.outputs.push_back(std::move(run.outputs[i]));
  // A result that is not written has its codes' place.
  std::vector<std::vector<double>> unwritten;
  for (const graph::Quantised& q : run.op.quantised)
    if (q.alone) {
      Matrix& m = own.outputs[static_cast<std::size_t>(q.output)].matrix;
      run.outputs[static_cast<std::size_t>(q.output)].matrix = m;
      if (q.transposed) m = {.data = nullptr, .rows = m.cols, .cols = m.rows, .pitch = m.rows};
      m.data = unwritten.emplace_back(static_cast<std::size_t>(m.rows * m.pitch)).data();
    }
  rule(own);
  for (std::size_t i = 0; i < op.inputs.size(); ++i) run.inputs[i] = std::move(own.inputs[i]);
  const auto value = [](std::vector<OpValue>& values, const std::vector<graph::TensorId>& ids, graph::TensorId id) {
    return &values[static_cast<std::size_t>(std::ranges::find(ids, id) - ids.begin())];
  };
  for (const graph::Quantised& q : run.op.quantised) {
    const ops::QuantisedOperands of = *ops::quantised(run.op, q.output);
    OpValue& y = *value(run.outputs, run.op.outputs, of.codes);
    OpValue& scales = *value(run.outputs, run.op.outputs, of.scales);
    if (q.transposed) {
      bound_transposed(own.outputs[static_cast<std::size_t>(q.output)],
                       value(run.inputs, run.op.inputs, of.row_scales)->matrix.data,
                       value(run.inputs, run.op.inputs, of.shared)->matrix.data[0], y, scales);
      continue;
    }
    const double* factors = q.folded ? value(run.inputs, run.op.inputs, of.factors)->matrix.data : nullptr;
    bound(own.outputs[static_cast<std::size_t>(q.output)], factors, run.graph.at(of.codes).dtype == DType::e4m3, y,
          scales);
  }
  for (std::size_t i = 0; i < op.outputs.size(); ++i)
    if (std::ranges::none_of(run.op.quantised, [&](const graph::Quantised& q) {
          return q.alone && static_cast<std::size_t>(q.output) == i;
        }))
      run.outputs[i] = std::move(own.outputs[i]);
}

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
  if (run.outputs.size() == 3) return;
  const Matrix &straight = run.out(3), &its_scales = run.out(4);
  for (std::int64_t i = 0; i < w.rows; ++i) {
    its_scales.data[i] = scales.data[i];
    for (std::int64_t j = 0; j < w.cols; ++j) straight.at(i, j) = y.at(j, i);
  }
}

void largest_scale(OpRun& run) {
  const Matrix& scales = run.in(0);
  run.outputs[0].exact = true;
  run.out(0).data[0] = *std::max_element(scales.data, scales.data + scales.cols);
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
