// Muon's kernels against loops in double: momentum, norms and factors of rows, the update.
#include <limits>
#include <numeric>

#include "kernels.h"

namespace llmc {
namespace {

/// Three parameters of 150, 64 and 7 elements at 256-byte offsets, in chunks of at most 64.
const std::vector<Chunk> kChunks = {
    {0, 0, 64, 0, 0}, {64, 64, 64, 0, 0}, {128, 128, 22, 0, 0}, {192, 192, 64, 1, 1}, {256, 256, 7, 2, 2}};
constexpr int kElements = 320, kChunkCount = 5, kUpdates = 7;
const GroupScalars kGroups[] = {{3e-3f, 0.1f}, {3e-3f, 0}, {1e-3f, 0.1f}};

MuonScalars momentum_of(float known, float unknown) { return {.updates = kUpdates - 1, .momentum = {known, unknown}}; }
const MuonScalars kScalars[] = {momentum_of(0.95f, 0.9f), momentum_of(0.8f, 0.7f), momentum_of(0.0f, 0.5f)};

StepResults results_with(unsigned updates, int skipped = kApplied) {
  StepResults results{.clip_scale = 0.37f};
  results.updates = updates;
  results.skipped = skipped;
  return results;
}

/// Chunks from the second on, at the offsets of a shard that begins there.
std::vector<Chunk> of_share() {
  std::vector<Chunk> chunks(kChunks.begin() + 1, kChunks.end());
  for (Chunk& chunk : chunks) chunk.state = chunk.offset - 64;
  return chunks;
}

template <class T>
std::vector<T> cut(const std::vector<T>& values) {
  return {values.begin() + 64, values.end()};
}

TEST(MuonMomentum, IsPyTorchsFormula) {
  const std::vector<float> gradient = random_values<float>(kElements, 1), momentum = random_values<float>(kElements, 2);
  for (const unsigned updates : {kUpdates, kUpdates + 1}) {  // known to the host, and one more
    const StepResults results = results_with(updates);
    const auto [g, m] = on_any_threads([&] { return std::tuple(gradient, momentum); },
                                       [&](int threads, auto& out) {
                                         auto& [g, m] = out;
                                         run(threads, muon_momentum_whole, g.data(), m.data(), kChunks.data(), 0,
                                             kChunkCount, kScalars, &results);
                                       });
    for (const Chunk& chunk : kChunks)
      for (long long e = chunk.offset; e < chunk.offset + chunk.length; ++e) {
        const double mu = kScalars[chunk.group].momentum[updates > kUpdates],
                     clipped = static_cast<double>(gradient[e]) * results.clip_scale;
        const double next = mu * momentum[e] + (1 - mu) * clipped, terms = std::abs(clipped) + std::abs(momentum[e]);
        ASSERT_NEAR(m[e], next, 2e-7 * terms);
        ASSERT_NEAR(g[e], mu * next + (1 - mu) * clipped, 4e-7 * terms);
      }
    std::vector<float> share_g = cut(gradient), share_m = cut(momentum);
    run(1, muon_momentum_share, share_g.data(), share_m.data(), of_share().data(), 0, kChunkCount - 1, kScalars,
        &results);
    EXPECT_TRUE(same_bits(cut(g), share_g) && same_bits(cut(m), share_m));
  }
}

TEST(MuonMomentum, LeavesOthersAndSkippedStepsAlone) {
  const std::vector<float> gradient = random_values<float>(kElements, 1), momentum = random_values<float>(kElements, 2);
  std::vector<float> g = gradient, m = momentum;
  StepResults results = results_with(kUpdates, kNotFinite);
  run(2, muon_momentum_whole, g.data(), m.data(), kChunks.data(), 0, kChunkCount, kScalars, &results);
  EXPECT_TRUE(same_bits(g, gradient) && same_bits(m, momentum));
  results.skipped = kApplied;
  run(2, muon_momentum_second, g.data(), m.data(), kChunks.data(), 0, kChunkCount, kScalars, &results);
  for (int e = 0; e < kElements; ++e) {
    const bool own = e >= 192 && e < 256;
    ASSERT_EQ(g[e] != gradient[e], own) << e;
    ASSERT_EQ(m[e] != momentum[e], own) << e;
  }
}

/// A weight decays unless `cautious` and its direction point in different ways.
TEST(Muon, IsItsFormula) {
  std::vector<float> master = random_values<float>(kElements, 1), direction = random_values<float>(kElements, 2);
  direction[3] = 0;
  const StepResults results = results_with(kUpdates);
  for (const int cautious : {0, 1}) {
    MuonScalars scalars[3];
    for (MuonScalars& s : scalars) s.cautious = cautious;
    const auto [p, copy, weights, updates] = on_any_threads(
        [&] {
          return std::tuple(master, std::vector<bf16>(kElements), std::vector<float>(kChunkCount),
                            std::vector<float>(kChunkCount));
        },
        [&](int threads, auto& out) {
          auto& [p, copy, weights, updates] = out;
          run(threads, muon_copy, p.data(), nullptr, nullptr, direction.data(), copy.data(), kChunks.data(), 0,
              kChunkCount, scalars, kGroups, &results, weights.data(), updates.data());
        });
    for (int i = 0; i < kChunkCount; ++i) {
      const Chunk& chunk = kChunks[i];
      const double lr = kGroups[chunk.group].lr, decay = kGroups[chunk.group].weight_decay;
      double weight = 0, update = 0;
      for (long long e = chunk.offset; e < chunk.offset + chunk.length; ++e) {
        const double w = master[e], d = direction[e], decayed = cautious && d * w < 0 ? w : w * (1 - lr * decay);
        ASSERT_NEAR(p[e], decayed - lr * d, 2e-7 * (std::abs(w) + lr * std::abs(d))) << e;
        ASSERT_EQ(copy[e].bits, from_float<bf16>(p[e]).bits);
        weight += static_cast<double>(p[e]) * p[e];
        update += (static_cast<double>(p[e]) - w) * (static_cast<double>(p[e]) - w);
      }
      EXPECT_NEAR(weights[i], weight, 1e-6 * weight);
      EXPECT_NEAR(updates[i], update, 1e-6 * update);
    }
    std::vector<float> share = cut(master), sums(kChunkCount), plain = master;
    std::vector<bf16> share_copy(kElements - 64);
    const std::vector<float> of_shard = cut(direction);
    run(1, muon_share, share.data(), nullptr, nullptr, of_shard.data(), share_copy.data(), of_share().data(), 0,
        kChunkCount - 1, scalars, kGroups, &results, sums.data(), sums.data());
    EXPECT_TRUE(same_bits(cut(p), share) && same_bits(cut(copy), share_copy));
    run(1, muon_plain, plain.data(), nullptr, nullptr, direction.data(), nullptr, kChunks.data(), 0, kChunkCount,
        scalars, kGroups, &results, nullptr, nullptr);
    EXPECT_TRUE(same_bits(plain, p));
  }
}

TEST(Muon, LeavesOthersAndSkippedStepsAlone) {
  const std::vector<float> master = random_values<float>(kElements, 1), direction = random_values<float>(kElements, 2);
  const MuonScalars scalars[3] = {};
  std::vector<float> p = master, weights(kChunkCount, 7.0f), updates(kChunkCount, 7.0f);
  std::vector<bf16> copy(kElements, bf16{7});
  StepResults results = results_with(kUpdates, kLossAbove);
  const auto update = [&](auto kernel) {
    run(2, kernel, p.data(), nullptr, nullptr, direction.data(), copy.data(), kChunks.data(), 0, kChunkCount, scalars,
        kGroups, &results, weights.data(), updates.data());
  };
  update(muon_copy);
  EXPECT_TRUE(same_bits(p, master));
  EXPECT_EQ(weights, std::vector<float>(kChunkCount, 7.0f));
  results.skipped = kApplied;
  update(muon_second);
  for (int e = 0; e < kElements; ++e) {
    const bool own = e >= 192 && e < 256;
    ASSERT_EQ(p[e] != master[e], own) << e;
    ASSERT_EQ(copy[e].bits != 7, own) << e;
  }
  EXPECT_EQ(weights[2], 7.0f);
  EXPECT_NE(weights[3], 7.0f);
}

template <class T>
class MuonRows : public testing::Test {};
TYPED_TEST_SUITE(MuonRows, Cases);

TYPED_TEST(MuonRows, HaveTheirNorms) {
  using C = TypeParam;
  const auto x = random_rows<typename C::Act>(C::kRows, C::kCols, C::kPitch, 1);
  const auto [norms] = on_any_threads(
      [] { return std::tuple(std::vector<float>(C::kRows)); },
      [&](int threads, auto& out) { run(threads, LLMC_OF(row_norms), x.data(), std::get<0>(out).data()); });
  for (int r = 0; r < C::kRows; ++r) {
    double squares = 0;
    for (int c = 0; c < C::kCols; ++c) squares += value(x[r * C::kPitch + c]) * value(x[r * C::kPitch + c]);
    ASSERT_NEAR(norms[r], std::sqrt(squares), 1e-6 * std::sqrt(squares));
  }
}

/// From fp32 and back; zeros become positive, and so does padding.
TYPED_TEST(MuonRows, AreMultipliedByTheirFactors) {
  using C = TypeParam;
  using Act = typename C::Act;
  auto x = random_rows<float>(C::kRows, C::kCols, C::kPitch, 1);
  x[1] = -0.0f;
  const auto factors = random_values<float>(C::kRows, 2);
  const auto [y] =
      on_any_threads([] { return std::tuple(std::vector<Act>(C::kRows * C::kPitch, garbage<Act>())); },
                     [&](int threads, auto& out) {
                       run(threads, LLMC_OF(scale_rows_momentum), x.data(), factors.data(), std::get<0>(out).data());
                     });
  const auto [back] =
      on_any_threads([] { return std::tuple(std::vector<float>(C::kRows * C::kPitch, garbage<float>())); },
                     [&](int threads, auto& out) {
                       run(threads, LLMC_OF(scale_rows_result), y.data(), factors.data(), std::get<0>(out).data());
                     });
  for (int r = 0; r < C::kRows; ++r)
    for (int c = 0; c < C::kPitch; ++c) {
      const int at = r * C::kPitch + c;
      const double exact = c < C::kCols ? static_cast<double>(x[at]) * factors[r] : 0;
      ASSERT_NEAR(value(y[at]), exact, tolerance<Act>(exact, std::abs(exact), 1e-7));
      ASSERT_NEAR(back[at], value(y[at]) * factors[r], 1e-7 * std::abs(value(y[at]) * factors[r]));
      ASSERT_FALSE(exact == 0 && std::signbit(back[at])) << at;
    }
}

constexpr int kRows = 13;

std::vector<float> factors(void (*kernel)(const float*, const MuonScalars*, float*), const std::vector<float>& norms,
                           MuonScalars scalars = {}) {
  return std::get<0>(on_any_threads(
      [] { return std::tuple(std::vector<float>(kRows)); },
      [&](int threads, auto& out) { run(threads, kernel, norms.data(), &scalars, std::get<0>(out).data()); }));
}

TEST(MuonFactors, BringAMatrixToNormOne) {
  std::vector<float> norms = random_values<float>(kRows, 1);
  for (float& n : norms) n = std::abs(n) + 0.1f;
  norms[4] = 0;
  double squares = 0, sum = 0, filled = 0;
  for (const float n : norms) squares += static_cast<double>(n) * n, sum += n, filled += n > 0;
  const double norm = std::sqrt(squares), even = sum / kRows * std::sqrt(filled);
  for (int r = 0; r < kRows; ++r) {
    ASSERT_NEAR(factors(muon_factors_quintic, norms)[r], 1 / norm, 1e-6 / norm);
    ASSERT_NEAR(factors(muon_factors_polar_express, norms)[r], 1 / (1.02 * norm + 1e-6), 1e-6 / norm);
    const double equal = norms[r] > 0 ? 1 / (norms[r] * std::sqrt(filled)) : 0;
    ASSERT_NEAR(factors(muon_factors_quintic, norms, {.equilibrate = 1})[r], equal, 1e-6 * equal);
    ASSERT_NEAR(factors(muon_factors_polar_express, norms, {.equilibrate = 1})[r], equal * even / (1.02 * even + 1e-6),
                1e-6 * equal);
  }
  for (const float factor : factors(muon_factors_quintic, std::vector<float>(kRows)))
    EXPECT_FLOAT_EQ(factor, 1e7f) << "of zeros";
}

/// 13 rows of 101 and of 4.
TEST(MuonFactors, AreTheSizeOfAnUpdate) {
  std::vector<float> norms(kRows, 2.0f);
  const double norm = 2 * std::sqrt(kRows);
  const auto first = [&](auto kernel, MuonScalars scalars) { return factors(kernel, norms, scalars)[5]; };
  EXPECT_NEAR(first(muon_factors_result, {}), 0.2 * std::sqrt(101), 1e-6);
  EXPECT_NEAR(first(muon_factors_result, {.original = 1}), 1, 1e-6);
  EXPECT_NEAR(first(muon_factors_tall, {}), 0.2 * std::sqrt(13), 1e-6);
  EXPECT_NEAR(first(muon_factors_tall, {.original = 1}), std::sqrt(13.0 / 4), 1e-6);
  EXPECT_NEAR(first(muon_factors_result, {.equilibrate = 1}), 0.2 * std::sqrt(101) * std::sqrt(13) / norm, 1e-6);
  EXPECT_NEAR(first(muon_factors_tall, {.equilibrate = 1, .original = 1}), std::sqrt(13.0 / 4) * 2 / norm, 1e-6);
}

/// Factors and moments of 13 rows with these norms.
struct Neurons {
  std::vector<float> factors, moments;
};

Neurons neurons(void (*kernel)(const float*, const MuonScalars*, const StepResults*, float*, float*),
                const std::vector<float>& norms, const std::vector<float>& moments, MuonScalars scalars,
                int skipped = kApplied) {
  const StepResults results = results_with(kUpdates, skipped);
  const auto [factors, after] =
      on_any_threads([&] { return std::tuple(std::vector<float>(kRows), moments); },
                     [&](int threads, auto& out) {
                       auto& [factors, after] = out;
                       run(threads, kernel, norms.data(), &scalars, &results, after.data(), factors.data());
                     });
  return {factors, after};
}

/// Against the formula of NorMuon: rows are divided by the roots of their moments, and the matrix has Muon's norm.
TEST(NeuronFactors, AreNorMuonsFormula) {
  std::vector<float> norms = random_values<float>(kRows, 1), moments = random_values<float>(kRows, 2);
  for (float& n : norms) n = std::abs(n) + 0.1f;
  for (float& v : moments) v = std::abs(v) * 1e-2f;
  moments[3] = norms[3] = 0;
  for (const bool tall : {false, true})
    for (const bool equilibrate : {false, true}) {
      const double beta2 = 0.9, eps = 1e-3, cols = tall ? 4 : 101, least = std::min(13.0, cols);
      const auto [factors, after] =
          neurons(tall ? neuron_factors_tall : neuron_factors_wide, norms, moments,
                  {.equilibrate = equilibrate, .original = tall, .beta2 = 0.9f, .eps = 1e-3f});
      double before = 0, squares = 0;
      for (const float n : norms) before += static_cast<double>(n) * n;
      std::vector<double> inverse;
      for (int r = 0; r < kRows; ++r) {
        const double n = norms[r], x = equilibrate ? n * std::sqrt(least / before) : n;
        const double v = beta2 * moments[r] + (1 - beta2) * x * x / cols;
        ASSERT_NEAR(after[r], v, 1e-6 * v + 1e-12);
        inverse.push_back(1 / (std::sqrt(v) + eps));
        squares += n * inverse[r] * n * inverse[r];
      }
      const double size = (tall ? std::sqrt(13 / cols) : 0.2 * std::sqrt(cols)) * std::sqrt(least / squares);
      for (int r = 0; r < kRows; ++r) ASSERT_NEAR(factors[r], size * inverse[r], 2e-6 * size * inverse[r]) << r;
    }
}

/// Of the first step of a matrix without a gradient, such as q_proj where init.zero has o_proj. The least eps, 1e-30,
/// is too small for larger matrices, as 1e-31 is for this one.
TEST(NeuronFactors, ScaleAMatrixOfZerosToZeros) {
  const std::vector<float> zeros(kRows, 0.0f);
  for (const float factor : neurons(neuron_factors_wide, zeros, zeros, {.beta2 = 0.9f, .eps = 1e-31f}).factors)
    EXPECT_EQ(0.0f * factor, 0.0f) << factor;
}

TEST(NeuronFactors, LeaveMomentsOfSkippedStepsAlone) {
  std::vector<float> norms(kRows, 2.0f), moments(kRows, 0.5f);
  norms[2] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(same_bits(neurons(neuron_factors_wide, norms, moments, {.beta2 = 0.9f}, kNotFinite).moments, moments));
  EXPECT_FALSE(same_bits(neurons(neuron_factors_wide, moments, moments, {.beta2 = 0.9f}).moments, moments));
}

TEST(Clear, WritesItsElementsAlone) {
  const auto clears = [](void (*kernel)(float*, long long), int begin) {
    for (const int count : {0, 1, 64, 150}) {
      std::vector<float> values(160, 3.0f);
      run(2, kernel, values.data() + begin, count);
      for (int i = 0; i < 160; ++i)
        ASSERT_EQ(values[i], begin <= i && i < begin + count ? 0.0f : 3.0f) << count << " " << i;
    }
  };
  clears(clear_part, 0);
  clears(clear_rows, 3);
}

}  // namespace
}  // namespace llmc
