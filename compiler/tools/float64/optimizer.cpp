// The work of an optimizer step on all parameters, and what writes weights outside of it.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "compiler/tools/float64/arithmetic.h"
#include "compiler/tools/float64/rules.h"
#include "compiler/tools/float64/update.h"
#include "device/types.h"

namespace llmc::float64 {
namespace {

/// Inverse of the error function by Newton's iteration from below, which erf's curvature keeps below.
double inverse_erf(double x) {
  double z = 0;
  for (int i = 0; i < 40; ++i) z += (std::abs(x) - std::erf(z)) * 0.5 * std::sqrt(M_PI) * std::exp(z * z);
  return std::copysign(z, x);
}

/// Returns number `draw` of the stream (seed, key): Philox 4x32-10 (Salmon et al. 2011) with draw and seed as the
/// counter and the stream's key as the key. The upper 24 bits of its first two words go, in fp32, through Box and
/// Muller. Other distributions have the quantile of the first word.
double drawn(spec::Distribution distribution, std::uint64_t draw, std::uint64_t seed, std::uint64_t key) {
  std::uint32_t x[4] = {static_cast<std::uint32_t>(draw), static_cast<std::uint32_t>(draw >> 32),
                        static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  std::uint32_t k[2] = {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * x[0], b = std::uint64_t{0xCD9E8D57} * x[2];
    const std::uint32_t next[4] = {static_cast<std::uint32_t>(b >> 32) ^ x[1] ^ k[0], static_cast<std::uint32_t>(b),
                                   static_cast<std::uint32_t>(a >> 32) ^ x[3] ^ k[1], static_cast<std::uint32_t>(a)};
    std::copy(next, next + 4, x);
    k[0] += 0x9E3779B9, k[1] += 0xBB67AE85;
  }
  // Rounding an odd integer of 25 bits decides how far the tail reaches: fp32, as in the definition.
  const float uniform = (static_cast<float>(x[0] >> 8) + 0.5f) * 0x1p-24f;
  const double centred = 2 * static_cast<double>(uniform) - 1;
  if (distribution == spec::Distribution::uniform) return std::sqrt(3.0) * centred;
  if (distribution == spec::Distribution::truncated)
    return std::numbers::sqrt2 * inverse_erf(std::erf(3 / std::numbers::sqrt2) * centred);
  const double turns = static_cast<double>(x[1] >> 8) * 0x1p-24;
  return std::sqrt(-2 * std::log(static_cast<double>(uniform))) * std::cos(2 * M_PI * turns);
}

/// Elements of the groups whose masters are not split are in buffers of their own, the first input or output.
void each_master(OpRun& run, const graph::Tensor& masters, std::size_t chunks, auto element) {
  for (const Chunk& chunk : chunks_of(run, chunks))
    for (int e = 0; e < chunk.length; ++e) element(chunk.offset + e, holds(masters.groups, chunk.group));
}

/// Brings a loss scale to the next step. Returns whether this one has overflown.
bool changes_with(LossScale& scale, bool good, bool finite_loss) {
  scale.last = scale.factor;
  if (good) {
    const bool grows = ++scale.good == kGoodSteps;
    if (grows) scale.good = 0;
    if (grows && std::isfinite(2 * scale.factor)) scale.factor *= 2;
    return false;
  }
  if (!finite_loss || scale.factor <= kLeastLossScale) return false;
  scale.factor /= 2;
  scale.good = 0;
  ++scale.overflows;
  return true;
}

}  // namespace

/// Computes the sum of squares of each chunk.
void gradient_norm(OpRun& run) {
  const Matrix &gradients = run.in(0), &partial = run.out(0);
  const auto chunks = chunks_of(run, 1);
  run.outputs[0].relative = 256 * kFp32;
  for (const Chunk& chunk : chunks) run.outputs[0].flushed = std::max(run.outputs[0].flushed, chunk.length * kFlushed);
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    const double* begin = gradients.data + chunks[c].offset;
    partial.data[c] = dot(chunks[c].length, begin, begin);
  }
}

void gradient_clip(OpRun& run) {
  const Matrix& partial = run.in(0);
  const auto* scalars = run.records_in<StepScalars>(1);
  auto* results = run.records_out<StepResults>(0);
  double squares = 0;
  for (std::int64_t c = 0; c < partial.cols; ++c) squares += partial.data[c];
  auto* scale = run.outputs.size() == 2 ? run.records_out<LossScale>(1) : nullptr;
  const double of_gradients = scale ? static_cast<double>(scale->factor) : 1;
  const double norm = std::sqrt(squares) / of_gradients, limit = static_cast<double>(scalars->clip_norm);
  const bool overflow = scale && changes_with(*scale, std::isfinite(norm), std::isfinite(results->loss));
  results->grad_norm = static_cast<float>(norm);
  results->clip_scale = static_cast<float>((limit > 0 && norm > limit ? limit / norm : 1) / of_gradients);
  results->skipped = overflow                                                   ? kOverflow
                     : !std::isfinite(results->loss) || !std::isfinite(norm)    ? kNotFinite
                     : results->loss > static_cast<double>(scalars->loss_limit) ? kLossAbove
                     : results->grad_norm > scalars->grad_norm_limit            ? kGradNormAbove
                                                                                : kApplied;
  results->updates += results->skipped == kApplied;
}

/// Computes L2 norms of each parameter's gradient, weights and update from its chunks' sums of squares.
void parameter_norms(OpRun& run) {
  const Matrix &first = run.in(3), &norms = run.out(0);
  run.outputs[0].relative = 32 * kFp32;
  for (std::int64_t p = 0; p < norms.rows; ++p)
    for (std::int64_t which = 0; which < 3; ++which) {
      double squares = 0;
      for (auto c = static_cast<std::int64_t>(first.data[p]); c < static_cast<std::int64_t>(first.data[p + 1]); ++c)
        squares += run.in(static_cast<std::size_t>(which)).data[c];
      const bool scaled = which == 0 && run.inputs.size() == 5;
      norms.at(p, which) = std::sqrt(squares) / (scaled ? static_cast<double>(run.records_in<LossScale>(4)->last) : 1);
    }
}

/// Element (r, c) of a parameter is draw r cols + c of the stream (seed, key), times std.
void initialise(OpRun& run) {
  const std::span<std::byte> bytes = run.inputs[0].records;
  const std::span<const InitRule> rules = {reinterpret_cast<const InitRule*>(bytes.data()),
                                           bytes.size() / sizeof(InitRule)};
  const spec::Distribution distribution = run.op.as<ops::InitialiseAttributes>().distribution;
  const Matrix& masters = run.out(0);
  std::fill_n(masters.data, masters.cols, 0.0);
  std::vector<double>& scale = run.outputs[0].scales(masters.cols);
  run.outputs[0].noise = 64 * kFp32;
  for (const InitRule& rule : rules)
#pragma omp parallel for
    for (long long r = 0; r < rule.rows; ++r)
      for (long long c = 0; c < rule.cols; ++c) {
        const auto at = static_cast<std::size_t>(rule.offset + r * rule.pitch + c);
        const auto draw = static_cast<std::uint64_t>(r * rule.cols + c);
        const double deviation = static_cast<double>(rule.std);
        masters.data[at] = deviation == 0 ? static_cast<double>(rule.value)
                                          : drawn(distribution, draw, run.seed, rule.key) * deviation;
        scale[at] = deviation;
      }
}

void cast(OpRun& run) {
  const Matrix &masters = run.in(0), &copies = run.out(0);
  std::copy_n(masters.data, copies.cols, copies.data);
}

/// The rest stands for the masters: Verifier::fetch.
void split_masters(OpRun& run) {
  const Matrix &whole = run.in(0), &masters = run.out(0), &copies = run.out(1), &rest = run.out(2);
  run.outputs[0].exact = run.outputs[2].exact = true;
  run.outputs[3].undefined = true;
  each_master(run, run.graph.at(run.op.outputs[0]), 1, [&](std::int64_t at, bool alone) {
    copies.data[at] = (alone ? masters : rest).data[at] = whole.data[at];
  });
}

void join_masters(OpRun& run) {
  const Matrix &masters = run.in(0), &rest = run.in(2), &whole = run.out(0);
  run.outputs[0].exact = true;
  each_master(run, run.graph.at(run.op.inputs[0]), 4,
              [&](std::int64_t at, bool alone) { whole.data[at] = (alone ? masters : rest).data[at]; });
}

}  // namespace llmc::float64
