// Loss of each token, its gradient, and the numbers that a step reports of all of them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/tools/float64/arithmetic.h"
#include "compiler/tools/float64/rules.h"
#include "device/types.h"

namespace llmc::float64 {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Softmax {
  double highest = -kInfinity, total = 0, weighted = 0;  // weighted: sum of e^x x, with x relative to the highest
  double lse() const { return highest + std::log(total); }
};

double capped(double logit, double cap) { return cap > 0 ? cap * std::tanh(logit / cap) : logit; }

Softmax softmax_of(const Matrix& logits, std::int64_t row, double cap = 0) {
  Softmax s;
  for (std::int64_t j = 0; j < logits.cols; ++j) s.highest = std::max(s.highest, capped(logits.at(row, j), cap));
  for (std::int64_t j = 0; j < logits.cols; ++j) {
    const double below = capped(logits.at(row, j), cap) - s.highest, power = std::exp(below);
    s.total += power;
    s.weighted += power * below;
  }
  return s;
}

/// Computes dlogits = (softmax(logits) (1 + 2 z lse) - onehot(target)) loss_scale, over the logits if `to` is the same
/// matrix; with a soft cap of the capped logits v, times 1 - (v / cap)^2.
void gradient_of_row(const Matrix& logits, std::int64_t row, const Softmax& s, std::int64_t target, double loss_scale,
                     const ops::CrossEntropyAttributes& of, const Matrix& to) {
  const double slope = 1 + 2 * of.z * s.lse();
  for (std::int64_t j = 0; j < logits.cols; ++j) {
    const double logit = capped(logits.at(row, j), of.softcap), t = of.softcap > 0 ? logit / of.softcap : 0;
    const double probability = std::exp(logit - s.highest) / s.total;
    to.at(row, j) = target < 0 ? 0.0 : (probability * slope - (j == target)) * loss_scale * (1 - t * t);
  }
}

}  // namespace

void cross_entropy(OpRun& run) {
  const Matrix &logits = run.in(0), &targets = run.in(1);
  const bool scaled = run.inputs.size() == 4;
  const double loss_scale = static_cast<double>(run.records_in<StepScalars>(2)->loss_scale) *
                            (scaled ? static_cast<double>(run.records_in<LossScale>(3)->factor) : 1);
  const auto& of = run.op.as<ops::CrossEntropyAttributes>();
  const std::int64_t rows = logits.rows;
  for (std::size_t i = 0; i < 3; ++i) run.outputs[i].scales(rows), run.outputs[i].noise = 32 * kFp32;
  run.inputs[0].relative = 64 * kFp32;
  run.inputs[0].noise = 4 * kFp32;
  std::vector<double>& slope_scale = run.inputs[0].scales();
#pragma omp parallel for
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto target = static_cast<std::int64_t>(targets.data[i]);
    const Softmax s = softmax_of(logits, i, of.softcap);
    const double logit = target < 0 ? 0 : capped(logits.at(i, target), of.softcap);
    const bool ignored = target < 0;
    run.out(0).data[i] = ignored ? 0 : s.lse() - logit;
    run.out(1).data[i] = ignored ? -kInfinity : s.lse();
    run.out(2).data[i] = ignored ? 0 : std::log(s.total) - s.weighted / s.total;
    run.out(3).data[i] = !ignored && logit >= s.highest;
    for (std::size_t r = 0; r < 3; ++r)
      run.outputs[r].scale[static_cast<std::size_t>(i)] =
          1 + std::abs(s.highest) + std::abs(logit) + std::log(s.total) + std::abs(s.weighted / s.total);
    // The largest probability of the row, times the terms of its factor.
    slope_scale[static_cast<std::size_t>(i)] =
        loss_scale / s.total * (1 + 2 * of.z * (std::abs(s.highest) + std::log(s.total)));
    if (of.gradient) gradient_of_row(logits, i, s, target, loss_scale, of, logits);
  }
}

void cross_entropy_backward(OpRun& run) {
  const Matrix &logits = run.in(0), &targets = run.in(1);
  const auto& of = run.op.as<ops::CrossEntropyAttributes>();
  for (std::int64_t i = 0; i < logits.rows; ++i)
    gradient_of_row(logits, i, softmax_of(logits, i, of.softcap), static_cast<std::int64_t>(targets.data[i]), 1, of,
                    run.out(0));
}

void loss_sum(OpRun& run) {
  const auto* scalars = run.records_in<StepScalars>(4);
  auto* results = run.records_out<StepResults>(0);
  const auto sum = [&](std::size_t i) {
    double total = 0;
    for (std::int64_t j = 0; j < run.in(i).cols; ++j)
      if (std::isfinite(run.in(i).data[j]) || i != 1) total += run.in(i).data[j];
    return total * static_cast<double>(scalars->loss_scale);
  };
  if (!run.adds) {
    results->loss = results->lse = results->entropy = results->top1 = 0;
    results->lse_max = -kInfinity;
  }
  results->loss += sum(0);
  results->lse += sum(1);
  results->entropy += sum(2);
  results->top1 += sum(3);
  for (std::int64_t j = 0; j < run.in(1).cols; ++j) results->lse_max = std::max(results->lse_max, run.in(1).data[j]);
  results->requests = static_cast<double>(scalars->requests);
}

void z_loss(OpRun& run) {
  const auto& of = run.op.as<ops::ZLossAttributes>();
  double squares = 0;
  for (std::int64_t j = 0; j < run.in(0).cols; ++j)
    if (const double lse = run.in(0).data[j]; lse != -kInfinity) squares += lse * lse;
  double& report = run.records_out<double>(0)[of.report];
  report = (run.adds ? report : 0) + of.z * squares * static_cast<double>(run.records_in<StepScalars>(1)->loss_scale);
}

void soft_cap(OpRun& run) {
  const Matrix &x = run.in(0), &y = run.out(0);
  const double cap = run.op.as<ops::SoftCapAttributes>().cap;
  run.outputs[0].relative = 32 * kFp32;
  for (std::int64_t i = 0; i < y.rows; ++i)
    for (std::int64_t j = 0; j < y.cols; ++j) y.at(i, j) = capped(x.at(i, j), cap);
}

void audit_loss(OpRun& run) {
  const Matrix &logits = run.in(0), &targets = run.in(1);
  for (std::int64_t i = 0; i < logits.rows; ++i) {
    const auto target = static_cast<std::int64_t>(targets.data[i]);
    run.out(0).data[i] = target < 0 ? 0 : softmax_of(logits, i).lse() - logits.at(i, target);
  }
}

}  // namespace llmc::float64
