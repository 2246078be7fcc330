// Initial weights: the stream against a plain Philox, moments of the normal distribution, independence of the layout.
#include <algorithm>
#include <cstdint>

#include "kernels.h"

namespace llmc {
namespace {

/// Cuts rules into chunks of 64 elements, as parameters are cut. Only `rules` [begin, end) are drawn.
std::vector<Chunk> chunks_of_rules(const std::vector<InitRule>& rules, std::size_t begin, std::size_t end) {
  std::vector<Chunk> chunks;
  for (std::size_t p = begin; p < end; ++p)
    for (long long at = 0, all = rules[p].rows * rules[p].pitch; at < all; at += 64)
      chunks.push_back({rules[p].offset + at, rules[p].offset + at, static_cast<int>(std::min(64ll, all - at)),
                        static_cast<int>(p), 0});
  return chunks;
}

template <class Kernel>
std::vector<float> draw_chunks(Kernel kernel, const std::vector<InitRule>& rules, const std::vector<Chunk>& chunks,
                               int elements, unsigned long long seed) {
  const auto [out] = on_any_threads([&] { return std::tuple(std::vector<float>(elements, 9.0f)); },
                                    [&](int threads, auto& out) {
                                      run(threads, kernel, std::get<0>(out).data(), rules.data(), chunks.data(), 0,
                                          static_cast<int>(chunks.size()), seed);
                                    });
  return out;
}

std::vector<float> draw(const std::vector<InitRule>& rules, int elements, unsigned long long seed) {
  return draw_chunks(init_normal_small, rules, chunks_of_rules(rules, 0, rules.size()), elements, seed);
}

/// Philox4x32-10 as published, then in double.
double reference(std::uint64_t number, std::uint64_t seed, std::uint64_t key) {
  std::uint32_t counter[4] = {static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32),
                              static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  std::uint32_t keys[2] = {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = 0xD2511F53ull * counter[0], p1 = 0xCD9E8D57ull * counter[2];
    const std::uint32_t next[4] = {
        static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ keys[0], static_cast<std::uint32_t>(p1),
        static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ keys[1], static_cast<std::uint32_t>(p0)};
    std::copy(next, next + 4, counter);
    keys[0] += 0x9E3779B9u;
    keys[1] += 0xBB67AE85u;
  }
  const double uniform = ((counter[0] >> 8) + 0.5) / (1 << 24),
               turns = (counter[1] >> 8) / static_cast<double>(1 << 24);
  return std::sqrt(-2 * std::log(uniform)) * std::cos(2 * M_PI * turns);
}

TEST(InitNormal, IsPhiloxAndBoxMuller) {
  const unsigned long long seed = 0x123456789abcdefull, key = 0xfedcba9876543210ull;
  const auto out = draw({{0, 20, 50, 50, key, 0.5f, 0.0f}}, 1000, seed);
  for (int i = 0; i < 1000; ++i) ASSERT_NEAR(out[i], 0.5 * reference(i, seed, key), 2e-6) << i;
}

TEST(InitNormal, HasTheMomentsOfANormalDistribution) {
  constexpr int kCount = 1 << 20;
  const auto out = draw({{0, 1024, 1024, 1024, 77, 2.0f, 0.0f}}, kCount, 5);
  double sum[5] = {};
  for (const float v : out)
    for (int k = 1; k < 5; ++k) sum[k] += std::pow(v / 2.0, k) / kCount;
  // Five standard errors: of the mean 1, the square sqrt(2), the cube sqrt(15), the fourth power sqrt(96), over
  // sqrt(n).
  EXPECT_NEAR(sum[1], 0, 5 * 1.0 / 1024);
  EXPECT_NEAR(sum[2], 1, 5 * std::sqrt(2.0) / 1024);
  EXPECT_NEAR(sum[3], 0, 5 * std::sqrt(15.0) / 1024);
  EXPECT_NEAR(sum[4], 3, 5 * std::sqrt(96.0) / 1024);
  double neighbours = 0;
  for (int i = 1; i < kCount; ++i) neighbours += out[i] * out[i - 1] / 4.0 / kCount;
  EXPECT_NEAR(neighbours, 0, 5 * 1.0 / 1024);
}

TEST(InitNormal, DependsOnNeitherPitchNorOffset) {
  const auto tight = draw({{0, 7, 30, 30, 42, 1.0f, 0.0f}}, 210, 9);
  const auto loose = draw({{64, 7, 30, 32, 42, 1.0f, 0.0f}}, 400, 9);
  for (int r = 0; r < 7; ++r)
    for (int c = 0; c < 32; ++c) ASSERT_EQ(loose[64 + r * 32 + c], c < 30 ? tight[r * 30 + c] : 0.0f);
  for (int i = 0; i < 64; ++i) ASSERT_EQ(loose[i], 9.0f);
  for (int i = 64 + 7 * 32; i < 400; ++i) ASSERT_EQ(loose[i], 9.0f);
}

TEST(InitNormal, SeedsAndKeysGiveOtherStreams) {
  const auto one = draw({{0, 1, 100, 100, 42, 1.0f, 0.0f}}, 100, 9);
  const auto seed = draw({{0, 1, 100, 100, 42, 1.0f, 0.0f}}, 100, 10);
  const auto key = draw({{0, 1, 100, 100, 43, 1.0f, 0.0f}}, 100, 9);
  for (int i = 0; i < 100; ++i) {
    EXPECT_NE(one[i], seed[i]);
    EXPECT_NE(one[i], key[i]);
  }
}

TEST(InitNormal, ConstantsAndRanges) {
  const std::vector<InitRule> rules = {
      {0, 1, 10, 10, 1, 1.0f, 0.0f}, {16, 2, 5, 8, 2, 0.0f, 1.0f}, {32, 1, 8, 8, 3, 1.0f, 0.0f}};
  const auto out = draw_chunks(init_normal_small, rules, chunks_of_rules(rules, 1, 2), 48, 1);
  for (int i = 0; i < 48; ++i) {
    const bool inside = i >= 16 && i < 32;
    EXPECT_EQ(out[i], !inside ? 9.0f : (i - 16) % 8 < 5 ? 1.0f : 0.0f) << i;
  }
}

/// Standard deviation 2: uniform numbers up to 2 sqrt(3), normal ones up to 6, both with the moments of their density.
TEST(InitNormal, OtherDistributionsHaveTheirMomentsAndBounds) {
  constexpr int kCount = 1 << 20;
  const std::vector<InitRule> rules = {{0, 1024, 1024, 1024, 77, 2.0f, 0.0f}};
  const double density = std::exp(-4.5) / std::sqrt(2 * M_PI), inside = std::erf(3 / std::sqrt(2.0));
  const double square = 1 - 6 * density / inside;                // of the normal distribution within 3
  const double fourth = 3 * square - 2 * 27 * density / inside;  // by parts
  for (const auto& [kernel, most, second, last] : {std::tuple(&init_normal_uniform, std::sqrt(3.0), 1.0, 9 / 5.0),
                                                   std::tuple(&init_normal_truncated, 3.0, square, fourth)}) {
    const auto out = draw_chunks(kernel, rules, chunks_of_rules(rules, 0, 1), kCount, 5);
    double sum[5] = {}, largest = 0;
    for (const float v : out) {
      largest = std::max(largest, std::abs(v / 2.0));
      for (int k = 1; k < 5; ++k) sum[k] += std::pow(v / 2.0, k) / kCount;
    }
    EXPECT_LE(largest, most * (1 + 1e-6));
    EXPECT_GT(largest, 0.999 * most);
    // Within five standard errors of a normal distribution's moments, which are larger.
    EXPECT_NEAR(sum[1], 0, 5 * 1.0 / 1024);
    EXPECT_NEAR(sum[2], second, 5 * std::sqrt(2.0) / 1024);
    EXPECT_NEAR(sum[3], 0, 5 * std::sqrt(15.0) / 1024);
    EXPECT_NEAR(sum[4], last, 5 * std::sqrt(96.0) / 1024);
  }
}

/// erf of a truncated draw, and a uniform one, are linear in the first word: the same for both.
TEST(InitNormal, OtherDistributionsAreQuantilesOfOneNumber) {
  const std::vector<InitRule> rules = {{0, 20, 50, 50, 42, 1.0f, 0.0f}};
  const auto chunks = chunks_of_rules(rules, 0, 1);
  const auto uniform = draw_chunks(init_normal_uniform, rules, chunks, 1000, 9),
             truncated = draw_chunks(init_normal_truncated, rules, chunks, 1000, 9);
  for (int i = 0; i < 1000; ++i)
    ASSERT_NEAR(std::erf(truncated[i] / std::sqrt(2.0)) / std::erf(3 / std::sqrt(2.0)), uniform[i] / std::sqrt(3.0),
                2e-6)
        << i;
}

/// Two ranks: their shards together equal the result of one.
TEST(InitNormal, SharesArePartsOfTheWhole) {
  const std::vector<InitRule> rules = {{0, 5, 50, 64, 7, 1.0f, 0.0f}, {320, 1, 24, 24, 8, 0.0f, 1.0f}};
  const auto whole = draw(rules, 344, 3);
  for (const int begin : {0, 176}) {
    std::vector<Chunk> chunks;
    for (Chunk chunk : chunks_of_rules(rules, 0, 2)) {
      const long long end = std::min<long long>(chunk.offset + chunk.length, begin + 176);
      chunk.offset = std::max<long long>(chunk.offset, begin);
      chunk.length = static_cast<int>(std::max<long long>(end - chunk.offset, 0));
      chunk.state = chunk.offset - begin;
      if (chunk.length > 0) chunks.push_back(chunk);
    }
    const auto share = draw_chunks(init_normal_share, rules, chunks, 176, 3);
    for (int i = 0; i < 176 && begin + i < 344; ++i) ASSERT_EQ(share[i], whole[begin + i]) << begin << " + " << i;
  }
}

}  // namespace
}  // namespace llmc
