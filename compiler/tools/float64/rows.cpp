// Ops on rows: look-ups, SwiGLU, additions and column sums.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "compiler/tools/float64/arithmetic.h"
#include "compiler/tools/float64/rules.h"

namespace llmc::float64 {
namespace {

std::int64_t index(const Matrix& m, std::int64_t i) { return static_cast<std::int64_t>(m.data[i]); }

void copy_row(const Matrix& from, std::int64_t i, const Matrix& to, std::int64_t j) {
  std::copy_n(from.row(i), to.cols, to.row(j));
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// Activation of the MLP's gate and its slope. An error of the fp32 arithmetic is relative to `size` and to `terms`,
/// the magnitudes of the value and of the slope's terms.
struct Activation {
  double value, slope, size, terms;
};

Activation silu(double x) {
  const double s = sigmoid(x);
  return {x * s, s * (1 + x * (1 - s)), std::abs(x) * s, s * (1 + std::abs(x))};
}

/// 0.5 x (1 + tanh(h)), h = sqrt(2 / pi) (x + 0.044715 x^3). e^-2h has h's rounding as an error relative to itself.
Activation gelu(double x) {
  const double root = std::sqrt(2 / std::numbers::pi), h = root * (x + 0.044715 * x * x * x);
  const double first = 1 / (1 + std::exp(-2 * h)), other = 1 / (1 + std::exp(2 * h));  // 0.5 (1 +- tanh(h))
  const double second = 2 * x * first * other * root * (1 + 3 * 0.044715 * x * x);
  const double rounding = 1 + std::abs(h) / 4;
  return {x * first, first + second, std::abs(x) * first * rounding, (first + std::abs(second)) * rounding};
}

Activation relu2(double x) {
  const double above = std::max(x, 0.0);
  return {above * above, 2 * above, above * above, 2 * above};
}

auto activation_of(spec::HiddenAct act) {
  switch (act) {
    case spec::HiddenAct::gelu_pytorch_tanh: return gelu;
    case spec::HiddenAct::relu2: return relu2;
    case spec::HiddenAct::silu: break;
  }
  return silu;
}

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

/// Computes s = act(gate) up, or act(gate) without a gate; gate is the first half of a row and up the second.
void swiglu(OpRun& run) {
  const Matrix &x = run.in(0), &s = run.out(0);
  const auto& [act_of, gated] = run.op.as<ops::SwigluAttributes>();
  const auto activation = activation_of(act_of);
  run.outputs[0].relative = 0;
  run.outputs[0].noise = 32 * kFp32;
  std::vector<double>& scale = run.outputs[0].scales(s.cols);
  for (std::int64_t i = 0; i < s.rows; ++i)
    for (std::int64_t j = 0; j < s.cols; ++j) {
      const Activation act = activation(x.at(i, j));
      const double up = gated ? x.at(i, x.cols / 2 + j) : 1;
      s.at(i, j) = act.value * up;
      scale[static_cast<std::size_t>(i * s.cols + j)] = act.size * std::abs(up);
    }
}

/// Computes dgate = ds up act'(gate), dup = ds act(gate).
void swiglu_backward(OpRun& run) {
  const auto& [recompute, act_of, gated] = run.op.as<ops::SwigluBackwardAttributes>();
  const auto activation = activation_of(act_of);
  const Matrix &ds = run.in(0), &x = run.in(1), &dx = run.out(0);
  const std::int64_t half = x.cols / 2;
  std::vector<double>& scale = run.outputs[0].scales(x.cols);
  run.outputs[0].noise = 32 * kFp32;
  for (std::int64_t i = 0; i < ds.rows; ++i) {
    std::fill_n(dx.row(i), dx.cols, 0.0);  // padding of both parts
    for (std::int64_t j = 0; j < ds.cols; ++j) {
      const double up = gated ? x.at(i, half + j) : 1, d = ds.at(i, j);
      const Activation act = activation(x.at(i, j));
      dx.at(i, j) = d * up * act.slope;
      scale[static_cast<std::size_t>(i * x.cols + j)] = std::abs(d * up) * act.terms;
      if (gated) {
        dx.at(i, half + j) = d * act.value;
        scale[static_cast<std::size_t>(i * x.cols + half + j)] = std::abs(d) * act.size;
      }
      if (recompute) run.outputs.back().matrix.at(i, j) = act.value * up;
    }
  }
  run.outputs.back().relative = (act_of == spec::HiddenAct::gelu_pytorch_tanh ? 64 : 32) * kFp32;
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
