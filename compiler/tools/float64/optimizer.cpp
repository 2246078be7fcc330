// What an optimizer step does with all parameters, and what writes weights outside of it.
#include <algorithm>
#include <cmath>

#include "compiler/tools/float64/arithmetic.h"
#include "compiler/tools/float64/rules.h"
#include "device/types.h"

namespace llmc::verify {
namespace {

std::span<const Chunk> chunks_of(const Run& run, std::size_t input) {
  const std::span<std::byte> bytes = run.inputs.at(input).records;
  return {reinterpret_cast<const Chunk*>(bytes.data()), bytes.size() / sizeof(Chunk)};
}

double square(double x) { return x * x; }

/// Number `draw` of the stream (seed, key): Philox 4x32-10 (Salmon et al. 2011) with the draw and the seed as counter
/// and the key as key; of its first two words the upper 24 bits each, in fp32, through Box and Muller.
double normal(std::uint64_t draw, std::uint64_t seed, std::uint64_t key) {
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
  // An odd integer of 25 bits may be rounded, which decides how far out the tail goes: fp32 as the definition says.
  const float uniform = (static_cast<float>(x[0] >> 8) + 0.5f) * 0x1p-24f;
  const double turns = static_cast<double>(x[1] >> 8) * 0x1p-24;
  return std::sqrt(-2 * std::log(static_cast<double>(uniform))) * std::cos(2 * M_PI * turns);
}

}  // namespace

/// Of each chunk the sum of squares.
void gradient_norm(Run& run) {
  const Matrix &gradients = run.in(0), &partial = run.out(0);
  const auto chunks = chunks_of(run, 1);
  run.outputs[0].relative = 256 * kFp32;
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    const double* begin = gradients.data + chunks[c].offset;
    partial.data[c] = dot(chunks[c].length, begin, begin);
  }
}

void gradient_clip(Run& run) {
  const Matrix& partial = run.in(0);
  const auto* scalars = run.records_in<StepScalars>(1);
  auto* results = run.records_out<StepResults>(0);
  double squares = 0;
  for (std::int64_t c = 0; c < partial.cols; ++c) squares += partial.data[c];
  const double norm = std::sqrt(squares), limit = static_cast<double>(scalars->clip_norm);
  results->grad_norm = static_cast<float>(norm);
  results->clip_scale = limit > 0 && norm > limit ? static_cast<float>(limit / norm) : 1.0f;
  results->skipped = !std::isfinite(results->loss) || !std::isfinite(norm)      ? kNotFinite
                     : results->loss > static_cast<double>(scalars->loss_limit) ? kLossAbove
                     : results->grad_norm > scalars->grad_norm_limit            ? kGradNormAbove
                                                                                : kApplied;
}

/// Loshchilov and Hutter 2019, as PyTorch has it: with g = gradient clip_scale,
/// m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2,
/// p = p (1 - lr weight_decay) - lr / (1 - beta1^t) m / (sqrt(v / (1 - beta2^t)) + eps).
void adamw(Run& run) {
  const auto* results = run.records_in<StepResults>(0);
  if (results->skipped) {
    for (Value& output : run.outputs) output.undefined = true;
    return;
  }
  const auto chunks = chunks_of(run, 3);
  const auto* scalars = run.records_in<AdamwScalars>(4);
  const auto* groups = run.records_in<GroupScalars>(5);
  const double beta1 = static_cast<double>(scalars->beta1), beta2 = static_cast<double>(scalars->beta2);
  const double eps = static_cast<double>(scalars->eps), clip = static_cast<double>(results->clip_scale);
  const double correction1 = static_cast<double>(scalars->bias_correction1);
  const double correction2 = static_cast<double>(scalars->bias_correction2);
  for (const std::size_t i : {1, 6, 7}) run.inputs[i].scales(run.in(i).cols), run.inputs[i].noise = 8 * kFp32;
  const auto [copies, norms] = run.op.as<ops::AdamwAttributes>();
  const std::size_t partials = copies ? 1 : 0;
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    const GroupScalars& group = groups[chunks[c].group];
    const double lr = static_cast<double>(group.lr), keep = 1 - lr * static_cast<double>(group.weight_decay);
    double weights = 0, updates = 0;
    for (int e = 0; e < chunks[c].length; ++e) {
      const auto at = static_cast<std::size_t>(chunks[c].offset + e),
                 state = static_cast<std::size_t>(chunks[c].state + e);
      double &p = run.in(1).data[at], &m = run.in(6).data[state], &v = run.in(7).data[state];
      const double g = run.in(2).data[at] * clip, before = p, m_terms = std::abs(m) + std::abs(g), v_terms = v + g * g;
      m = beta1 * m + (1 - beta1) * g;
      v = beta2 * v + (1 - beta2) * g * g;
      const double rate = lr / correction1 / (std::sqrt(v / correction2) + eps);
      p = p * keep - rate * m;
      // A moment is a small difference of its terms where beta is near 1, and the update has the moments' errors.
      run.inputs[6].scale[state] = m_terms;
      run.inputs[7].scale[state] = v_terms;
      run.inputs[1].scale[at] = std::abs(before) + rate * m_terms + (v > 0 ? std::abs(rate * m) * v_terms / v : 0.0);
      if (copies) run.out(0).data[at] = p;
      weights += p * p;
      updates += square(p - before);
    }
    if (!norms) continue;
    run.out(partials).data[c] = weights;
    run.out(partials + 1).data[c] = updates;
  }
  if (copies) run.outputs[0].scale = run.inputs[1].scale, run.outputs[0].parts = run.inputs[1].parts;
  if (!norms) return;
  // An update is the difference of two weights in fp32: of one that is small beside the weight few places are left.
  for (std::size_t i = partials; i < run.outputs.size(); ++i) {
    Value& partial = run.outputs[i];
    partial.relative = 256 * kFp32;
    std::vector<double>& scale = partial.scales(partial.matrix.cols);
    for (std::size_t c = 0; c < chunks.size(); ++c) {
      const double weight = run.out(partials).data[c], update = run.out(partials + 1).data[c];
      scale[c] = i == partials ? weight : std::sqrt(weight * update) + kFp32 * weight;
    }
  }
}

/// L2 norms of each parameter's gradient, weights and update, from the sums of squares of its chunks.
void parameter_norms(Run& run) {
  const Matrix &first = run.in(3), &norms = run.out(0);
  run.outputs[0].relative = 32 * kFp32;
  for (std::int64_t p = 0; p < norms.rows; ++p)
    for (std::int64_t which = 0; which < 3; ++which) {
      double squares = 0;
      for (auto c = static_cast<std::int64_t>(first.data[p]); c < static_cast<std::int64_t>(first.data[p + 1]); ++c)
        squares += run.in(static_cast<std::size_t>(which)).data[c];
      norms.at(p, which) = std::sqrt(squares);
    }
}

/// Element (r, c) of a parameter is normal draw r cols + c of the stream (seed, key), times std.
void initialise(Run& run) {
  const std::span<std::byte> bytes = run.inputs[0].records;
  const std::span<const InitRule> rules = {reinterpret_cast<const InitRule*>(bytes.data()),
                                           bytes.size() / sizeof(InitRule)};
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
        masters.data[at] =
            deviation == 0 ? static_cast<double>(rule.value) : normal(draw, run.seed, rule.key) * deviation;
        scale[at] = deviation;
      }
}

void cast(Run& run) {
  const Matrix &masters = run.in(0), &copies = run.out(0);
  std::copy_n(masters.data, copies.cols, copies.data);
}

}  // namespace llmc::verify
