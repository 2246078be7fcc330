// Split masters: every number is joined to itself, and updates have the bits of those of fp32 masters.
#include "device/split.h"

#include <limits>

#include "kernels.h"

namespace llmc {
namespace {

unsigned bits_of(float v) { return __builtin_bit_cast(unsigned, v); }
float number_of(unsigned bits) { return __builtin_bit_cast(float, bits); }

TEST(Split, EveryNumberIsJoinedAndItsCopyIsRounded) {
  const auto check = [](unsigned bits) {
    const SplitNumber parts = split(number_of(bits));
    ASSERT_EQ(parts.copy.bits, from_float<bf16>(number_of(bits)).bits) << std::hex << bits;
    ASSERT_LE(parts.up, 1u);
    ASSERT_EQ(bits_of(joined(parts.copy.bits, parts.rest.bits, parts.up)), bits) << std::hex << bits;
  };
  for (unsigned upper = 0; upper < 0x10000u; ++upper) {
    if ((upper & 0x7f80u) == 0x7f80u) continue;  // infinities and NaN, below
    for (const unsigned rest : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu, upper * 40503u % 0x10000u})
      check(upper << 16 | rest);
  }
  for (const unsigned infinity : {0x7f800000u, 0xff800000u}) check(infinity);
  for (const unsigned nan : {0x7fc00000u, 0x7f800001u, 0x7fffffffu, 0xff80ffffu, 0x7fc08000u}) {
    const SplitNumber parts = split(number_of(nan));
    EXPECT_TRUE(std::isnan(joined(parts.copy.bits, parts.rest.bits, parts.up))) << std::hex << nan;
    EXPECT_TRUE(std::isnan(to_float(parts.copy)));
  }
}

/// 2^16 + 1 numbers have an even bf16, so that two of them have the same rest: both ends of the interval.
TEST(Split, TiesAreToldApartByTheirBit) {
  const SplitNumber below = split(number_of(0x3f7f8000u)), above = split(number_of(0x3f808000u));
  EXPECT_EQ(below.copy.bits, 0x3f80);
  EXPECT_EQ(above.copy.bits, 0x3f80);
  EXPECT_EQ(below.rest.bits, above.rest.bits);
  EXPECT_EQ(below.up, 1u);
  EXPECT_EQ(above.up, 0u);
}

/// Two parameters with split masters, between them one without; the last chunk has a tail.
const std::vector<Chunk> kChunks = {
    {0, 0, 256, 0, 0}, {256, 256, 200, 0, 0}, {512, 512, 70, 1, 1}, {768, 768, 264, 2, 0}};
constexpr int kElements = 1280, kChunkCount = 4, kSplitGroups = 1;
const GroupScalars kScalars[] = {{3e-3f, 0.1f}, {3e-3f, 0}};

struct Masters {
  std::vector<bf16> copy;
  std::vector<rest16> rest;
  std::vector<ties8> ties;
};

/// A third of them ties; padding outside of chunks has other bits, which must stay.
std::vector<float> numbers() {
  std::vector<float> values = random_values<float>(kElements, 1);
  for (int e = 0; e < kElements; e += 3) values[e] = number_of((bits_of(values[e]) & 0xffff0000u) | 0x8000u);
  return values;
}

bool is_split(int element) { return element < 456 || (element >= 768 && element < 768 + 264); }

Masters split_of(const std::vector<float>& values) {
  Masters m{std::vector<bf16>(kElements, bf16{7}), std::vector<rest16>(kElements, rest16{9}),
            std::vector<ties8>(kElements / 8, ties8{0xa5})};
  for (int e = 0; e < kElements; ++e) {
    if (!is_split(e)) continue;
    const SplitNumber parts = split(values[e]);
    m.copy[e] = parts.copy, m.rest[e] = parts.rest;
    m.ties[e / 8].bits = static_cast<unsigned char>((m.ties[e / 8].bits & ~(1u << e % 8)) | parts.up << e % 8);
  }
  return m;
}

float master(const Masters& m, int e) {
  return joined(m.copy[e].bits, m.rest[e].bits, m.ties[e / 8].bits >> e % 8 & 1u);
}

AdamwScalars adamw_scalars() {
  AdamwScalars s{0.9f, 0.95f, 1e-8f, 6, {0.5f, 0}, {0.3f, 0}};
  return s;
}

/// Runs steps of `plain` on fp32 masters and of `parts` on split ones, and compares all bits after each.
void check_steps(auto plain, auto parts) {
  std::vector<float> whole = numbers();
  const std::vector<float> before = whole;
  Masters m = split_of(whole);
  const Masters untouched = m;
  std::vector<bf16> copy(kElements);
  StepResults results{};
  results.updates = 7;
  results.clip_scale = 0.37f;
  for (int step = 0; step < 4; ++step) {
    const std::vector<float> gradient = random_values<float>(kElements, 10 + static_cast<unsigned>(step), 0.1);
    std::vector<float> sums[4];
    for (auto& list : sums) list.assign(kChunkCount, 7.0f);
    results.skipped = step == 2 ? kNotFinite : kApplied;
    plain(whole, copy, gradient, results, sums[0], sums[1], 1 + step);
    parts(m, gradient, results, sums[2], sums[3], 1 + step);
    ASSERT_TRUE(same_bits(sums[0], sums[2]) && same_bits(sums[1], sums[3])) << step;
    for (int e = 0; e < kElements; ++e) {
      if (is_split(e)) {
        ASSERT_EQ(bits_of(master(m, e)), bits_of(whole[e])) << step << " " << e;
        ASSERT_EQ(m.copy[e].bits, from_float<bf16>(whole[e]).bits);
      } else {
        ASSERT_EQ(m.copy[e].bits, untouched.copy[e].bits);
        ASSERT_EQ(m.rest[e].bits, untouched.rest[e].bits);
        ASSERT_EQ(m.ties[e / 8].bits >> e % 8 & 1u, untouched.ties[e / 8].bits >> e % 8 & 1u) << e;
      }
    }
  }
  EXPECT_NE(whole[0], before[0]);
}

TEST(Split, AdamWHasTheBitsOfFp32Masters) {
  std::vector<float> m(kElements), v(kElements), own_m(kElements), own_v(kElements);
  const AdamwScalars s[] = {adamw_scalars(), adamw_scalars()};
  check_steps(
      [&](auto& p, auto& copy, const auto& g, const StepResults& r, auto& weights, auto& updates, int threads) {
        run(threads, adamw_first, p.data(), g.data(), m.data(), v.data(), copy.data(), kChunks.data(), 0, kChunkCount,
            s, kScalars, &r, weights.data(), updates.data());
      },
      [&](Masters& p, const auto& g, const StepResults& r, auto& weights, auto& updates, int threads) {
        run(threads, adamw_split_first, p.copy.data(), p.rest.data(), p.ties.data(), g.data(), own_m.data(),
            own_v.data(), kChunks.data(), 0, kChunkCount, s, kScalars, &r, weights.data(), updates.data());
        ASSERT_TRUE(same_bits(m, own_m) && same_bits(v, own_v));
      });
}

TEST(Split, MuonHasTheBitsOfFp32Masters) {
  const MuonScalars s[] = {{.cautious = 1}, {}};
  check_steps(
      [&](auto& p, auto& copy, const auto& g, const StepResults& r, auto& weights, auto& updates, int threads) {
        run(threads, muon_first, p.data(), nullptr, nullptr, g.data(), copy.data(), kChunks.data(), 0, kChunkCount, s,
            kScalars, &r, weights.data(), updates.data());
      },
      [&](Masters& p, const auto& g, const StepResults& r, auto& weights, auto& updates, int threads) {
        run(threads, muon_split, nullptr, p.rest.data(), p.ties.data(), g.data(), p.copy.data(), kChunks.data(), 0,
            kChunkCount, s, kScalars, &r, weights.data(), updates.data());
      });
}

TEST(Split, LionHasTheBitsOfFp32Masters) {
  std::vector<float> m(kElements), own_m(kElements);
  const LionScalars s[] = {{0.9f, 0.99f}, {0.9f, 0.99f}};
  check_steps(
      [&](auto& p, auto& copy, const auto& g, const StepResults& r, auto& weights, auto& updates, int threads) {
        run(threads, lion_first, p.data(), g.data(), m.data(), copy.data(), kChunks.data(), 0, kChunkCount, s, kScalars,
            &r, weights.data(), updates.data());
      },
      [&](Masters& p, const auto& g, const StepResults& r, auto& weights, auto& updates, int threads) {
        run(threads, lion_split_first, p.copy.data(), p.rest.data(), p.ties.data(), g.data(), own_m.data(),
            kChunks.data(), 0, kChunkCount, s, kScalars, &r, weights.data(), updates.data());
        ASSERT_TRUE(same_bits(m, own_m));
      });
}

TEST(Split, AdamwInt8HasTheBitsOfFp32Masters) {
  struct Moments {
    std::vector<dynamic8> first = std::vector<dynamic8>(kElements);
    std::vector<udynamic8> second = std::vector<udynamic8>(kElements);
    std::vector<float> scale = std::vector<float>(kElements / 256), second_scale = scale;
  } of_whole, of_parts;
  const AdamwScalars s[] = {adamw_scalars(), adamw_scalars()};
  check_steps(
      [&](auto& p, auto& copy, const auto& g, const StepResults& r, auto& weights, auto& updates, int threads) {
        run(threads, adamw_int8_first, p.data(), nullptr, nullptr, g.data(), of_whole.first.data(),
            of_whole.scale.data(), of_whole.second.data(), of_whole.second_scale.data(), copy.data(), kChunks.data(), 0,
            kChunkCount, s, kScalars, &r, weights.data(), updates.data());
      },
      [&](Masters& p, const auto& g, const StepResults& r, auto& weights, auto& updates, int threads) {
        run(threads, adamw_int8_split, nullptr, p.rest.data(), p.ties.data(), g.data(), of_parts.first.data(),
            of_parts.scale.data(), of_parts.second.data(), of_parts.second_scale.data(), p.copy.data(), kChunks.data(),
            0, kChunkCount, s, kScalars, &r, weights.data(), updates.data());
        ASSERT_TRUE(same_bits(of_whole.first, of_parts.first) && same_bits(of_whole.second, of_parts.second) &&
                    same_bits(of_whole.scale, of_parts.scale));
      });
}

/// Shards: the first parameter's chunks are another rank's.
TEST(Split, MastersAreConvertedBothWays) {
  const std::vector<float> whole = numbers();
  const auto [master_, copy, rest, ties] = on_any_threads(
      [&] {
        return std::tuple(std::vector<float>(kElements, 5.0f), std::vector<bf16>(kElements, bf16{7}),
                          std::vector<rest16>(kElements, rest16{9}), std::vector<ties8>(kElements / 8, ties8{0xa5}));
      },
      [&](int threads, auto& out) {
        auto& [master, copy, rest, ties] = out;
        run(threads, split_masters_small, whole.data(), master.data(), copy.data(), rest.data(), ties.data(),
            kChunks.data(), 0, kChunkCount);
      });
  const Masters expected = split_of(whole), found{copy, rest, ties};
  EXPECT_TRUE(same_bits(rest, expected.rest) && same_bits(ties, expected.ties));
  for (int e = 0; e < kElements; ++e) {
    const bool alone = e >= 512 && e < 512 + 70;
    ASSERT_EQ(master_[e], alone ? whole[e] : 5.0f) << e;
    ASSERT_EQ(copy[e].bits, alone ? from_float<bf16>(whole[e]).bits : expected.copy[e].bits);
  }
  std::vector<float> joined(kElements, 3.0f);
  run(2, join_masters_small, master_.data(), copy.data(), rest.data(), ties.data(), joined.data(), kChunks.data(), 0,
      kChunkCount);
  for (int e = 0; e < kElements; ++e) {
    const bool alone = e >= 512 && e < 512 + 70;
    ASSERT_EQ(joined[e], is_split(e) || alone ? whole[e] : 3.0f) << e;
  }

  // Weights of a shard at the front of their buffers, and masters in fp32 where all are.
  std::vector<Chunk> chunks(kChunks.begin() + 2, kChunks.end());
  for (Chunk& chunk : chunks) chunk.state = chunk.offset - 512;
  Masters part{std::vector<bf16>(kElements), std::vector<rest16>(kElements), std::vector<ties8>(kElements / 8)};
  std::vector<float> own(kElements), back(kElements);
  run(1, split_masters_share, whole.data(), own.data(), part.copy.data(), part.rest.data(), part.ties.data(),
      chunks.data(), 0, 2);
  run(1, join_masters_share, own.data(), part.copy.data(), part.rest.data(), part.ties.data(), back.data(),
      chunks.data(), 0, 2);
  EXPECT_EQ(own[0], whole[512]);
  EXPECT_EQ(part.copy[256].bits, expected.copy[768].bits);
  for (int e = 0; e < kElements; ++e) {
    const bool has = (e >= 512 && e < 512 + 70) || (e >= 768 && e < 768 + 264);
    ASSERT_EQ(back[e], has ? whole[e] : 0.0f) << e;
  }
}

TEST(Split, EmbeddingReadsTheMasters) {
  constexpr int kTableRows = 12, kCols = 101, kPitch = 104;
  std::vector<float> table(kTableRows * kPitch);
  Masters m{std::vector<bf16>(table.size()), std::vector<rest16>(table.size()), std::vector<ties8>(table.size() / 8)};
  for (std::size_t e = 0; e < table.size(); ++e) {
    table[e] = number_of(0x3f7f8000u + static_cast<unsigned>(e) * 0x8000u);  // every second a tie
    const SplitNumber parts = split(table[e]);
    m.copy[e] = parts.copy, m.rest[e] = parts.rest;
    m.ties[e / 8].bits |= static_cast<unsigned char>(parts.up << e % 8);
  }
  const std::vector<int> tokens = {3, 0, 11, 3, 7, 1, 2, 4, 5, 6, 8, 9, 10};
  for (const auto& [kernel, scale] :
       {std::pair(&embedding_split_odd, 1.0f), std::pair(&embedding_split_scaled, 12.0f)}) {
    const auto [out] = on_any_threads([&] { return std::tuple(std::vector<float>(13 * kPitch, 5.0f)); },
                                      [&, kernel = kernel](int threads, auto& out) {
                                        run(threads, kernel, tokens.data(), m.copy.data(), m.rest.data(), m.ties.data(),
                                            std::get<0>(out).data());
                                      });
    for (int row = 0; row < 13; ++row)
      for (int c = 0; c < kPitch; ++c)
        ASSERT_EQ(out[row * kPitch + c], c < kCols ? scale * table[tokens[row] * kPitch + c] : 0);
  }
}

}  // namespace
}  // namespace llmc
