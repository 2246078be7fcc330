// Ops on rows: look-ups, SwiGLU, additions and column sums.
#include <algorithm>
#include <cmath>

#include "compiler/tools/float64/arithmetic.h"
#include "compiler/tools/float64/rules.h"

namespace llmc::float64 {
namespace {

std::int64_t index(const Matrix& m, std::int64_t i) { return static_cast<std::int64_t>(m.data[i]); }

void copy_row(const Matrix& from, std::int64_t i, const Matrix& to, std::int64_t j) {
  std::copy_n(from.row(i), to.cols, to.row(j));
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

void embedding(OpRun& run) {
  // Of split masters the rest stands for them (Verifier::fetch).
  const Matrix &tokens = run.in(0), &table = run.in(run.inputs.size() == 4 ? 2 : 1), &x = run.out(0);
  for (std::int64_t i = 0; i < x.rows; ++i) copy_row(table, index(tokens, i), x, i);
  const double scale = ops::scale_of(run.op);
  if (scale == 1) return;
  for (std::int64_t i = 0; i < x.rows; ++i)
    for (std::int64_t j = 0; j < x.cols; ++j) x.at(i, j) *= scale;
  run.outputs[0].relative = 4 * kFp32;
}

/// Computes dtable[token] += the sum of dx over the token's positions, which are adjacent in `order`.
void embedding_backward(OpRun& run) {
  const Matrix &dx = run.in(0), &order = run.in(1), &begin = run.in(2), &token = run.in(3), &count = run.in(4);
  const Matrix& dtable = run.out(0);
  const double factor = ops::scale_of(run.op);
  std::vector<double>& scale = run.outputs[0].scales();
  for (std::int64_t r = 0; r < index(count, 0); ++r) {
    const std::int64_t to = index(token, r);
    double& most = scale[static_cast<std::size_t>(to)];
    most = largest(dtable.cols, dtable.row(to));
    for (std::int64_t i = index(begin, r); i < index(begin, r + 1); ++i) {
      add_scaled(dtable.cols, factor, dx.row(index(order, i)), dtable.row(to));
      most += factor * largest(dtable.cols, dx.row(index(order, i)));
    }
  }
}

/// Computes s = silu(gate) up; gate is the first half of a row and up the second.
void swiglu(OpRun& run) {
  const Matrix &x = run.in(0), &s = run.out(0);
  run.outputs[0].relative = 32 * kFp32;
  for (std::int64_t i = 0; i < s.rows; ++i)
    for (std::int64_t j = 0; j < s.cols; ++j) {
      const double gate = x.at(i, j), up = x.at(i, x.cols / 2 + j);
      s.at(i, j) = gate * sigmoid(gate) * up;
    }
}

/// Computes dgate = ds up sigmoid(gate) (1 + gate (1 - sigmoid(gate))), dup = ds silu(gate).
void swiglu_backward(OpRun& run) {
  const Matrix &ds = run.in(0), &x = run.in(1), &dx = run.out(0);
  const std::int64_t half = x.cols / 2;
  std::vector<double>& scale = run.outputs[0].scales(x.cols);
  run.outputs[0].noise = 32 * kFp32;
  for (std::int64_t i = 0; i < ds.rows; ++i) {
    std::fill_n(dx.row(i), dx.cols, 0.0);  // padding of both parts
    for (std::int64_t j = 0; j < ds.cols; ++j) {
      const double gate = x.at(i, j), up = x.at(i, half + j), d = ds.at(i, j), s = sigmoid(gate);
      dx.at(i, j) = d * up * s * (1 + gate * (1 - s));
      dx.at(i, half + j) = d * gate * s;
      scale[static_cast<std::size_t>(i * x.cols + j)] = std::abs(d * up) * s * (1 + std::abs(gate));
      scale[static_cast<std::size_t>(i * x.cols + half + j)] = std::abs(d * gate) * s;
      if (run.op.as<ops::SwigluBackwardAttributes>().recompute) run.outputs.back().matrix.at(i, j) = gate * s * up;
    }
  }
  run.outputs.back().relative = 32 * kFp32;
}

void add(OpRun& run) {
  const Matrix &a = run.in(0), &b = run.in(1), &sum = run.out(0);
  for (std::int64_t i = 0; i < sum.rows; ++i)
    for (std::int64_t j = 0; j < sum.cols; ++j) sum.at(i, j) = a.at(i, j) + b.at(i, j);
}

void gather_rows(OpRun& run) {
  const Matrix& y = run.out(0);
  for (std::int64_t i = 0; i < y.rows; ++i) copy_row(run.in(0), index(run.in(1), i), y, i);
}

void column_sum(OpRun& run) {
  const Matrix &x = run.in(0), &sums = run.out(0);
  OpValue& result = run.outputs[0];
  result.sums_alone = sums.rows > 1;
  result.noise = 32 * kFp32;
  std::vector<double>& scale = result.scales(sums.cols);
  for (std::int64_t i = 0; i < sums.rows; ++i) std::fill_n(sums.row(i), sums.cols, 0.0);
  for (std::int64_t i = 0; i < x.rows; ++i)
    for (std::int64_t j = 0; j < x.cols; ++j) {
      sums.at(0, j) += x.at(i, j);
      scale[static_cast<std::size_t>(j)] += std::abs(x.at(i, j));
    }
}

/// Sums rows i, i + r, i + 2 r, ... into row i of the r result rows.
void column_reduce(OpRun& run) {
  const Matrix &partial = run.in(0), &sum = run.out(0);
  std::vector<double>& scale = run.outputs[0].scales(sum.cols);
  run.outputs[0].noise = 32 * kFp32;
  run.outputs[0].partial = sum.rows > 1;
  for (std::int64_t i = 0; i < sum.rows; ++i)
    for (std::int64_t j = 0; j < sum.cols; ++j) {
      double& total = sum.at(i, j);
      double& most = scale[static_cast<std::size_t>(i * sum.cols + j)];
      if (!run.adds || sum.rows > 1) total = 0;
      most = std::abs(total);
      for (std::int64_t r = i; r < partial.rows; r += sum.rows) {
        total += partial.at(r, j);
        most += std::abs(partial.at(r, j));
      }
    }
}

/// Zeroes what later micro-batches of a step add to, in the first one.
void zero(OpRun& run) {
  const Matrix& zeros = run.out(0);
  if (run.adds) return;
  for (std::int64_t i = 0; i < zeros.rows; ++i) std::fill_n(zeros.row(i), zeros.cols, 0.0);
}

}  // namespace llmc::float64
