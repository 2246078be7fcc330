// RMSNorm, RoPE, and both of each head of q and k, with their gradients.
#include <algorithm>
#include <cmath>

#include "compiler/tools/float64/arithmetic.h"
#include "compiler/tools/float64/rules.h"

namespace llmc::float64 {
namespace {

/// Zeroes partial sums over rows. The first row takes the total, whose scale is the sum of its terms' magnitudes.
void begin_sums(OpValue& sums) {
  sums.sums_alone = true;
  for (std::int64_t i = 0; i < sums.matrix.rows; ++i)
    for (std::int64_t j = 0; j < sums.matrix.cols; ++j) sums.matrix.at(i, j) = 0;
  sums.scales(sums.matrix.cols);
  sums.noise = 32 * kFp32;
}

void add_to(OpValue& sums, std::int64_t column, double term) {
  sums.matrix.at(0, column) += term;
  sums.scale[static_cast<std::size_t>(column)] += std::abs(term);
}

/// The factor that a weight stands for.
double factor_of(spec::NormWeight kind, double weight) {
  return kind == spec::NormWeight::one_plus ? 1 + weight : weight;
}

/// Rotates the pair (a, b) by an angle.
void turn(double& a, double& b, double cosine, double sine) {
  const double turned = a * cosine - b * sine;
  b = b * cosine + a * sine;
  a = turned;
}

/// Position of row `i` in its sequence, or in its document, whose first token input `documents` has.
std::int64_t position_of(const OpRun& run, std::int64_t i, bool resets, std::size_t documents) {
  return i % run.graph.sequence - (resets ? static_cast<std::int64_t>(run.in(documents).row(0)[i]) : 0);
}

const double* angles_of(const OpRun& run, const Matrix& table, std::int64_t i, bool resets, std::size_t documents) {
  return table.row(position_of(run, i, resets, documents));
}

/// Factor of q after its rotation.
double factor_of_q(const ops::RopeAttributes& rope, std::int64_t position) {
  return rope.beta == 0 ? 1 : 1 + rope.beta * std::log(1 + static_cast<double>(position / rope.original));
}

/// Rotates each pair of a head by its angle: elements (i, i + n / 2) of the first n, or (2i, 2i + 1). `angles`: n / 2
/// cosines, then sines, or a cosine and a sine of each pair.
void turn_head(double* head, const double* angles, const ops::RopeAttributes& rope, double direction) {
  const std::int64_t half = rope.rotary / 2;
  for (std::int64_t p = 0; p < half; ++p) {
    const std::int64_t first = rope.interleaved ? 2 * p : p, second = rope.interleaved ? first + 1 : p + half;
    turn(head[first], head[second], angles[first], direction * angles[second]);
  }
}

void turn_heads(OpRun& run, double direction) {
  const Matrix &x = run.in(0), &table = run.in(1), &y = run.out(0);
  const ops::RopeAttributes& rope = run.op.as<ops::RopeAttributes>();
  const ops::Heads& heads = rope.heads;
  const std::int64_t all = heads.query + 2 * heads.key;
  std::vector<double>& scale = run.outputs[0].scales(all);
  for (std::int64_t i = 0; i < x.rows; ++i) {
    const double* angles = angles_of(run, table, i, rope.resets, 2);
    const double factor = factor_of_q(rope, position_of(run, i, rope.resets, 2));
    for (std::int64_t j = 0; j < x.cols; ++j) y.at(i, j) = x.at(i, j);
    for (std::int64_t head = 0; head < heads.query + heads.key; ++head) {
      double* elements = y.row(i) + head * heads.dim;
      scale[static_cast<std::size_t>(i * all + head)] = largest(heads.dim, elements);
      if (!rope.rotates) continue;
      turn_head(elements, angles, rope, direction);
      if (head >= heads.query) continue;
      for (std::int64_t j = 0; j < heads.dim; ++j) elements[j] *= factor;
      scale[static_cast<std::size_t>(i * all + head)] *= factor;
    }
  }
}

}  // namespace

/// Computes y = x rstd w (+ residual), rstd = 1 / sqrt(mean(x^2) + eps).
void rms_norm(OpRun& run) {
  const Matrix &x = run.in(0), &y = run.out(0), &rstd = run.out(1);
  const auto& [eps, adds_residual, copy, kind] = run.op.as<ops::RmsNormAttributes>();
  const auto weight = [&, of = kind](std::int64_t j) { return factor_of(of, run.in(1).data[j]); };
  for (std::int64_t i = 0; i < x.rows; ++i) {
    const double r = 1 / std::sqrt(dot(x.cols, x.row(i), x.row(i)) / static_cast<double>(x.cols) + eps);
    rstd.data[i] = r;
    for (std::int64_t j = 0; j < x.cols; ++j) y.at(i, j) = x.at(i, j) * r * weight(j);
  }
  for (OpValue& result : run.outputs) result.relative = 32 * kFp32;
  if (!adds_residual) return;
  for (std::size_t i : {std::size_t{0}, std::size_t{2}}) {
    if (i == 2 && !copy) break;
    const Matrix& sum = run.out(i);
    run.outputs[i].relative = 0;
    run.outputs[i].noise = 32 * kFp32;
    std::vector<double>& scale = run.outputs[i].scales();
    for (std::int64_t row = 0; row < sum.rows; ++row) {
      const double* residual = run.in(2).row(row);
      double& most = scale[static_cast<std::size_t>(row)] = largest(sum.cols, residual);
      for (std::int64_t j = 0; j < sum.cols; ++j) {
        const double normed = x.at(row, j) * rstd.data[row] * weight(j);
        most = std::max(most, std::abs(normed));
        sum.at(row, j) = residual[j] + normed;
      }
    }
  }
}

void round_stream(OpRun& run) {
  const Matrix &x = run.in(0), &y = run.out(0);
  for (std::int64_t i = 0; i < y.rows; ++i) std::copy_n(x.row(i), y.cols, y.row(i));
}

/// Computes dx = rstd (w dy - x rstd^2 mean(w dy x)) (+ dresidual), dw = column sums of dy x rstd.
void rms_norm_backward(OpRun& run) {
  const Matrix &dy = run.in(0), &x = run.in(1), &rstd = run.in(3), &dx = run.out(0);
  const auto& [adds_residual, recompute, kind] = run.op.as<ops::RmsNormBackwardAttributes>();
  const bool weighted = kind != spec::NormWeight::none;
  const auto weight = [&, of = kind](std::int64_t j) { return factor_of(of, run.in(2).data[j]); };
  std::vector<double>& scale = run.outputs[0].scales();
  run.outputs[0].noise = 32 * kFp32;
  if (weighted) begin_sums(run.outputs[1]);
  for (std::int64_t i = 0; i < x.rows; ++i) {
    const double r = rstd.data[i];
    double mean = 0;
    for (std::int64_t j = 0; j < x.cols; ++j) {
      const double scaled = weight(j) * dy.at(i, j);
      mean += scaled * x.at(i, j) / static_cast<double>(x.cols);
      scale[static_cast<std::size_t>(i)] = std::max(scale[static_cast<std::size_t>(i)], r * std::abs(scaled));
      if (weighted) add_to(run.outputs[1], j, dy.at(i, j) * x.at(i, j) * r);
    }
    for (std::int64_t j = 0; j < x.cols; ++j) {
      const double residual = adds_residual ? run.inputs.back().matrix.at(i, j) : 0.0;
      dx.at(i, j) = r * (weight(j) * dy.at(i, j) - x.at(i, j) * r * r * mean) + residual;
      if (recompute) run.outputs.back().matrix.at(i, j) = x.at(i, j) * r * weight(j);
    }
    if (adds_residual) scale[static_cast<std::size_t>(i)] += largest(x.cols, run.inputs.back().matrix.row(i));
  }
}

void rope(OpRun& run) { turn_heads(run, 1); }

void rope_backward(OpRun& run) { turn_heads(run, -1); }

/// Columns that share a root mean square: of a head; or with `width` of all heads of q, or of k.
struct Normed {
  std::int64_t begin, size, weight, heads;
};

std::vector<Normed> normed_columns(const ops::Heads& heads, bool width, std::int64_t second) {
  const std::int64_t q = heads.query * heads.dim, k = heads.key * heads.dim;
  if (width) return {{0, q, 0, heads.query}, {q, k, q, heads.key}};
  std::vector<Normed> result;
  for (std::int64_t head = 0; head < heads.query + heads.key; ++head)
    result.push_back({head * heads.dim, heads.dim, head < heads.query ? 0 : second, 1});
  return result;
}

/// Rotates the heads of q and k in place.
void turn_row(const ops::Heads& heads, double* row, const double* angles, double direction) {
  for (std::int64_t head = 0; head < heads.query + heads.key; ++head)
    turn_head(row + head * heads.dim, angles, {.heads = heads, .rotary = heads.dim}, direction);
}

/// Computes n = x rstd w for each head of q and k, then rotates it, or with after_rope from the rotated x; copies heads
/// of v.
void qk_norm_rope(OpRun& run) {
  const Matrix &x = run.in(0), &weight = run.in(1), &table = run.in(2), &y = run.out(0), &rstd = run.out(1);
  const auto& [heads, eps, rotates, alone, width, resets, after_rope, kind] = run.op.as<ops::QkNormRopeAttributes>();
  const std::int64_t all = heads.query + 2 * heads.key;
  const std::vector<Normed> norms = normed_columns(heads, width, kind == spec::NormWeight::none ? 0 : weight.cols / 2);
  std::vector<double>& scale = run.outputs[0].scales(all);
  run.outputs[0].noise = run.outputs[1].relative = 32 * kFp32;
  for (std::int64_t i = 0; i < x.rows; ++i) {
    const double* angles = alone ? nullptr : angles_of(run, table, i, resets, 3);
    for (std::int64_t j = 0; j < x.cols; ++j) y.at(i, j) = x.at(i, j);
    if (rotates && after_rope) turn_row(heads, y.row(i), angles, 1);
    for (std::size_t part = 0; part < norms.size(); ++part) {
      const auto& [begin, size, own, count] = norms[part];
      double* n = y.row(i) + begin;
      const double r = 1 / std::sqrt(dot(size, n, n) / static_cast<double>(size) + eps);
      rstd.at(i, static_cast<std::int64_t>(part)) = r;
      for (std::int64_t j = 0; j < size; ++j) n[j] *= r * factor_of(kind, weight.data[own + j]);
    }
    for (std::int64_t head = 0; head < heads.query + heads.key; ++head)
      scale[static_cast<std::size_t>(i * all + head)] = largest(heads.dim, y.row(i) + head * heads.dim);
    if (rotates && !after_rope) turn_row(heads, y.row(i), angles, 1);
  }
}

/// With d = dy rotated back: dx = rstd (w d - x rstd^2 mean(w d x)), dw = sums of d x rstd over rows and heads. With
/// after_rope d is dy, x is rotated, and dx is rotated back.
void qk_norm_rope_backward(OpRun& run) {
  const Matrix &dy = run.in(0), &x = run.in(1), &weight = run.in(2), &table = run.in(3), &rstd = run.in(4);
  const Matrix& dx = run.out(0);
  const auto& [heads, rotates, alone, width, resets, after_rope, kind] = run.op.as<ops::QkNormRopeBackwardAttributes>();
  const std::int64_t all = heads.query + 2 * heads.key;
  const std::vector<Normed> norms = normed_columns(heads, width, kind == spec::NormWeight::none ? 0 : weight.cols / 2);
  std::vector<double>& scale = run.outputs[0].scales(all);
  run.outputs[0].noise = 32 * kFp32;
  const bool weighted = kind != spec::NormWeight::none;
  if (weighted) begin_sums(run.outputs[1]);
  for (std::int64_t i = 0; i < x.rows; ++i) {
    const double* angles = alone ? nullptr : angles_of(run, table, i, resets, 5);
    std::vector<double> normed(x.row(i), x.row(i) + x.cols);
    for (std::int64_t j = 0; j < x.cols; ++j) dx.at(i, j) = dy.at(i, j);
    if (rotates && after_rope) turn_row(heads, normed.data(), angles, 1);
    if (rotates && !after_rope) turn_row(heads, dx.row(i), angles, -1);
    for (std::size_t part = 0; part < norms.size(); ++part) {
      const auto& [begin, size, own, count] = norms[part];
      double* d = dx.row(i) + begin;
      const double* from = normed.data() + begin;
      const double r = rstd.at(i, static_cast<std::int64_t>(part));
      double mean = 0, most = 0;
      for (std::int64_t j = 0; j < size; ++j) {
        const double scaled = factor_of(kind, weight.data[own + j]) * d[j];
        mean += scaled * from[j] / static_cast<double>(size);
        most = std::max(most, r * std::abs(scaled));
        if (weighted) add_to(run.outputs[1], own + j, d[j] * from[j] * r);
      }
      const std::int64_t head = begin / heads.dim;
      std::fill_n(scale.begin() + (i * all + head), count, most);
      for (std::int64_t j = 0; j < size; ++j)
        d[j] = r * (factor_of(kind, weight.data[own + j]) * d[j] - from[j] * r * r * mean);
    }
    if (rotates && after_rope) turn_row(heads, dx.row(i), angles, -1);
  }
}

}  // namespace llmc::float64
