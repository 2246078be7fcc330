// The dynamic map against its definition, and AdamW in 8 bits against its formula in double.
#include <algorithm>
#include <limits>

#include "device/dynamic_map.h"
#include "kernels.h"

namespace llmc {
namespace {

/// The 256 numbers in order (Dettmers et al. 2022): centres of n equal parts of each decade, 0, and 1.
std::vector<double> numbers_of(bool both_signs) {
  std::vector<double> numbers = {0, 1};
  for (int decade = -6; decade <= 0; ++decade) {
    const int parts = 1 << (decade + (both_signs ? 6 : 7));
    for (int part = 0; part < parts; ++part) {
      const double centre = std::pow(10, decade) * (0.1 + 0.9 * (part + 0.5) / parts);
      numbers.push_back(centre);
      if (both_signs) numbers.push_back(-centre);
    }
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}
const std::vector<double> kSigned = numbers_of(true), kUnsigned = numbers_of(false);

/// Code of the number nearest to `v`, which is in range; only 0 has that of an unsigned 0.
int nearest_code(const std::vector<double>& numbers, double v) {
  int code = 0;
  for (int c = 1; c < 256; ++c)
    if (std::abs(numbers[c] - v) < std::abs(numbers[code] - v)) code = c;
  return numbers[0] == 0 && v > 0 ? std::max(code, 1) : code;
}

template <class Code>
double number_of_code(int code) {
  return to_float(Code{static_cast<unsigned char>(code)});
}

TEST(DynamicMap, CodesStandForTheirNumbers) {
  ASSERT_EQ(kSigned.size(), 256u);
  ASSERT_EQ(kUnsigned.size(), 256u);
  for (int code = 0; code < 256; ++code) {  // three roundings of fp32
    ASSERT_NEAR(number_of_code<dynamic8>(code), kSigned[code], 1.8e-7 * std::abs(kSigned[code])) << code;
    ASSERT_NEAR(number_of_code<udynamic8>(code), kUnsigned[code], 1.8e-7 * kUnsigned[code]) << code;
  }
  EXPECT_EQ(number_of_code<dynamic8>(127), 0.0);
  EXPECT_EQ(number_of_code<dynamic8>(255), 1.0);
  EXPECT_EQ(number_of_code<udynamic8>(255), 1.0);
}

/// Between the numbers of two codes the border lies in the middle; on either side of it by more than fp32's rounding of
/// an index, 1e-6 of the number, the code is known.
TEST(DynamicMap, NumbersGetTheNearestCode) {
  constexpr double kBeside = 1.5e-6;
  for (int code = 0; code + 1 < 256; ++code) {
    const auto check = [&](const std::vector<double>& numbers, auto encode) {
      const double border = (numbers[code] + numbers[code + 1]) / 2, beside = kBeside * std::abs(border);
      if (numbers[code] == 0 && &numbers == &kUnsigned) return;
      ASSERT_EQ(encode(static_cast<float>(border - beside)), code) << border;
      ASSERT_EQ(encode(static_cast<float>(border + beside)), code + 1) << border;
      ASSERT_EQ(encode(static_cast<float>(numbers[code])), code);
    };
    check(kSigned, [](float v) { return from_float<dynamic8>(v).bits; });
    check(kUnsigned, [](float v) { return from_float<udynamic8>(v).bits; });
  }
  EXPECT_EQ(from_float<dynamic8>(1.0f).bits, 255);
  EXPECT_EQ(from_float<dynamic8>(-1.0f).bits, 0) << "-1 has no code of its own";
  EXPECT_EQ(from_float<dynamic8>(0.0f).bits, 127);
  EXPECT_EQ(from_float<dynamic8>(2.7e-7f).bits, 127);
  EXPECT_EQ(from_float<dynamic8>(-2.8e-7f).bits, 126);
  EXPECT_EQ(from_float<udynamic8>(0.0f).bits, 0);
  EXPECT_EQ(from_float<udynamic8>(1e-30f).bits, 1) << "only 0 becomes 0";
  EXPECT_EQ(from_float<udynamic8>(1.0f).bits, 255);
}

TEST(DynamicMap, ScalesOfTinyBlocksHaveAnInverse) {
  EXPECT_EQ(BlockScale(0.0f).inverse, 0.0f);
  EXPECT_EQ(BlockScale(0.0f).scale, 0.0f);
  EXPECT_EQ(BlockScale(3.0f).scale, 3.0f);
  for (const float tiny : {std::numeric_limits<float>::min(), std::numeric_limits<float>::denorm_min()})
    EXPECT_TRUE(std::isfinite(BlockScale(tiny).inverse)) << tiny;
  EXPECT_GT(BlockScale(1.0f).unsigned_part(std::numeric_limits<float>::min()), 0.0f);
  EXPECT_EQ(BlockScale(1.0f).unsigned_part(0.0f), 0.0f);
}

/// Three parameters: 700 elements in chunks of 512, 300, and 256, each from a block on.
const std::vector<Chunk> kChunks = {
    {0, 0, 512, 0, 0}, {512, 512, 188, 0, 0}, {768, 768, 300, 1, 1}, {1280, 1280, 256, 2, 2}};
constexpr int kElements = 1536, kBlocks = kElements / kStateBlock, kChunkCount = 4;
const GroupScalars kGroups[] = {{3e-3f, 0.1f}, {3e-3f, 0}, {1e-3f, 0.1f}};

std::vector<AdamwScalars> scalars() {
  std::vector<AdamwScalars> all;
  for (const auto& [beta1, beta2] : {std::pair(0.9, 0.95), std::pair(0.8, 0.995), std::pair(0.9, 0.9)}) {
    AdamwScalars s{};
    s.updates = 6, s.beta1 = static_cast<float>(beta1), s.beta2 = static_cast<float>(beta2), s.eps = 1e-8f;
    s.bias_correction1[0] = static_cast<float>(1 - std::pow(beta1, 7));
    s.bias_correction2[0] = static_cast<float>(1 - std::pow(beta2, 7));
    all.push_back(s);
  }
  return all;
}

/// State of a step: elements of no chunk are padding.
struct State {
  std::vector<float> master, gradient;
  std::vector<dynamic8> first;
  std::vector<udynamic8> second;
  std::vector<float> first_scale, second_scale;
  std::vector<bf16> copy;
  std::vector<float> weights, updates;  // of chunks

  double m(long long i) const { return number_of_code<dynamic8>(first[i].bits) * first_scale[i / kStateBlock]; }
  double v(long long i) const { return number_of_code<udynamic8>(second[i].bits) * second_scale[i / kStateBlock]; }
};

bool operator==(const State& a, const State& b) {
  return same_bits(a.master, b.master) && same_bits(a.first, b.first) && same_bits(a.second, b.second) &&
         same_bits(a.first_scale, b.first_scale) && same_bits(a.second_scale, b.second_scale) &&
         same_bits(a.copy, b.copy) && same_bits(a.weights, b.weights) && same_bits(a.updates, b.updates);
}

using llmc::same_bits;

/// Of on_any_threads().
bool same_bits(const std::vector<State>& a, const std::vector<State>& b) { return a == b; }

State state(bool fresh) {
  State s{random_values<float>(kElements, 1),
          random_values<float>(kElements, 2, 0.1),
          std::vector<dynamic8>(kElements, dynamic8{0}),
          std::vector<udynamic8>(kElements, udynamic8{0}),
          std::vector<float>(kBlocks),
          std::vector<float>(kBlocks),
          std::vector<bf16>(kElements, from_float<bf16>(5.0f)),
          std::vector<float>(kChunkCount, 7.0f),
          std::vector<float>(kChunkCount, 7.0f)};
  std::mt19937 engine(3);
  if (!fresh) {
    for (auto& code : s.first) code.bits = static_cast<unsigned char>(engine() % 256);
    for (auto& code : s.second) code.bits = static_cast<unsigned char>(engine() % 256);
    for (float& scale : s.first_scale) scale = 0.01f + 0.001f * static_cast<float>(engine() % 16);
    for (float& scale : s.second_scale) scale = 1e-4f + 1e-5f * static_cast<float>(engine() % 16);
  }
  s.gradient[7] = 0;  // its moments only decay
  s.gradient[9] = 1e-12f;
  return s;
}

StepResults results() {
  StepResults results{};
  results.updates = 7;
  results.clip_scale = 0.37f;
  return results;
}

template <class Kernel>
State updated(Kernel kernel, const State& before, const StepResults& results, bool copy_and_norms = true) {
  const std::vector<AdamwScalars> s = scalars();
  const auto [after] = on_any_threads(
      [&] { return std::tuple(std::vector<State>{before}); },
      [&](int threads, auto& out) {
        State& o = std::get<0>(out)[0];
        run(threads, kernel, o.master.data(), nullptr, nullptr, o.gradient.data(), o.first.data(), o.first_scale.data(),
            o.second.data(), o.second_scale.data(), copy_and_norms ? o.copy.data() : nullptr, kChunks.data(), 0,
            kChunkCount, s.data(), kGroups, &results, copy_and_norms ? o.weights.data() : nullptr,
            copy_and_norms ? o.updates.data() : nullptr);
      });
  return after[0];
}

/// Codes are those of the moments in double, but where these are nearer to a border than fp32 can tell.
TEST(AdamwInt8, IsAdamWOfTheNumbersThatCodesStandFor) {
  for (const bool fresh : {false, true}) {
    const State before = state(fresh), after = updated(adamw_int8_copy, before, results());
    const std::vector<AdamwScalars> s = scalars();
    const double clip = results().clip_scale;
    int exact = 0, codes = 0;
    for (int c = 0; c < kChunkCount; ++c) {
      const Chunk& chunk = kChunks[c];
      const AdamwScalars& own = s[static_cast<std::size_t>(chunk.group)];
      const GroupScalars& group = kGroups[chunk.group];
      double weight = 0, update = 0;
      for (long long begin = chunk.offset; begin < chunk.offset + chunk.length; begin += kStateBlock) {
        const long long end = std::min(begin + kStateBlock, chunk.offset + chunk.length), block = begin / kStateBlock;
        std::vector<double> m, v, bound, bound_v;  // terms, by which errors of both are bounded
        for (long long e = begin; e < end; ++e) {
          const double g = clip * static_cast<double>(before.gradient[e]);
          const double b1 = own.beta1, b2 = own.beta2, old_m = before.m(e), old_v = before.v(e), w = before.master[e];
          m.push_back(b1 * old_m + (1 - b1) * g);
          v.push_back(b2 * old_v + (1 - b2) * g * g);
          bound.push_back(std::abs(old_m) + std::abs(g));
          bound_v.push_back(old_v + g * g);
          const double step = static_cast<double>(group.lr) / own.bias_correction1[0] * m.back() /
                              (std::sqrt(v.back() / own.bias_correction2[0]) + own.eps);
          const double expected = w * (1 - static_cast<double>(group.lr) * group.weight_decay) - step;
          // A moment inherits the error of its terms, and an update that of both moments.
          const double terms = bound.back() / (std::sqrt(v.back()) + 1e-30) * group.lr;
          ASSERT_NEAR(after.master[e], expected, 1.2e-7 * std::abs(w) + 2e-6 * terms) << e;
          ASSERT_EQ(after.copy[e].bits, from_float<bf16>(after.master[e]).bits);
          weight += static_cast<double>(after.master[e]) * after.master[e];
          update += (static_cast<double>(after.master[e]) - before.master[e]) *
                    (static_cast<double>(after.master[e]) - before.master[e]);
        }
        double most_m = 0, most_v = 0;
        for (std::size_t i = 0; i < m.size(); ++i)
          most_m = std::max(most_m, std::abs(m[i])), most_v = std::max(most_v, v[i]);
        const double most = *std::max_element(bound.begin(), bound.end()),
                     most_of_v = *std::max_element(bound_v.begin(), bound_v.end());
        ASSERT_NEAR(after.first_scale[block], most_m, 4e-7 * most);
        ASSERT_NEAR(after.second_scale[block], most_v, 4e-7 * most_of_v);
        for (std::size_t i = 0; i < m.size(); ++i) {
          const long long e = begin + static_cast<long long>(i);
          const auto check = [&](int code, const std::vector<double>& numbers, double part, double error) {
            ++codes, exact += code == nearest_code(numbers, part);
            ASSERT_GE(code, nearest_code(numbers, part - error)) << e << " " << part;
            ASSERT_LE(code, nearest_code(numbers, part + error)) << e << " " << part;
          };
          check(after.first[e].bits, kSigned, m[i] / most_m,
                1e-6 * (bound[i] + most * std::abs(m[i]) / most_m) / most_m);
          check(after.second[e].bits, kUnsigned, v[i] / most_v,
                1e-6 * (bound_v[i] + v[i] + most_of_v * v[i] / most_v) / most_v);
          ASSERT_EQ(after.second[e].bits == 0, v[i] == 0) << e;
        }
      }
      EXPECT_NEAR(after.weights[c], weight, 1e-6 * weight);
      EXPECT_NEAR(after.updates[c], update, 1e-6 * update);
    }
    EXPECT_GE(exact, codes - 4) << "rounding decides of few";
    const State plain = updated(adamw_int8_plain, before, results(), false);
    EXPECT_TRUE(same_bits(plain.master, after.master) && same_bits(plain.first, after.first) &&
                same_bits(plain.second, after.second));
    EXPECT_TRUE(same_bits(plain.copy, before.copy) && same_bits(plain.weights, before.weights));
  }
}

TEST(AdamwInt8, TouchesNothingInASkippedStepAndNothingBetweenChunks) {
  const State before = state(false);
  StepResults skipped = results();
  skipped.skipped = kNotFinite;
  EXPECT_TRUE(updated(adamw_int8_copy, before, skipped) == before);
  const State after = updated(adamw_int8_copy, before, results());
  for (int e = 0; e < kElements; ++e) {
    const bool in_chunk = std::any_of(kChunks.begin(), kChunks.end(), [e](const Chunk& chunk) {
      return chunk.offset <= e && e < chunk.offset + chunk.length;
    });
    if (in_chunk) continue;
    ASSERT_EQ(after.master[e], before.master[e]);
    ASSERT_EQ(after.first[e].bits, before.first[e].bits);
    ASSERT_EQ(after.second[e].bits, before.second[e].bits);
    ASSERT_EQ(after.copy[e].bits, before.copy[e].bits);
  }
}

TEST(AdamwInt8, OfOneGroupTouchesItsChunksOnly) {
  const State before = state(false), all = updated(adamw_int8_copy, before, results()),
              some = updated(adamw_int8_second, before, results());
  for (int e = 0; e < kElements; ++e) {
    const State& expected = e >= 768 && e < 768 + 300 ? all : before;
    ASSERT_EQ(some.master[e], expected.master[e]) << e;
    ASSERT_EQ(some.first[e].bits, expected.first[e].bits);
    ASSERT_EQ(some.second[e].bits, expected.second[e].bits);
  }
  for (int block = 0; block < kBlocks; ++block)
    EXPECT_EQ(some.first_scale[block], (block == 3 || block == 4 ? all : before).first_scale[block]);
}

/// The same elements at the offsets of a shard: from 512 on, moved to the front.
TEST(AdamwInt8, OfSharesIsThatOfTheWhole) {
  constexpr int kMoved = 512, kMovedBlocks = kMoved / kStateBlock;
  const State before = state(false), whole = updated(adamw_int8_copy, before, results());
  State part = before;
  const auto cut = [](auto& values, int count) { values.erase(values.begin(), values.begin() + count); };
  const auto cut_all = [&](State& s) {
    cut(s.master, kMoved), cut(s.gradient, kMoved), cut(s.first, kMoved), cut(s.second, kMoved), cut(s.copy, kMoved);
    cut(s.first_scale, kMovedBlocks), cut(s.second_scale, kMovedBlocks), cut(s.weights, 1), cut(s.updates, 1);
  };
  cut_all(part);
  std::vector<Chunk> chunks(kChunks.begin() + 1, kChunks.end());
  for (Chunk& chunk : chunks) chunk.state = chunk.offset - kMoved;
  const std::vector<AdamwScalars> s = scalars();
  const StepResults r = results();
  run(1, adamw_int8_share, part.master.data(), nullptr, nullptr, part.gradient.data(), part.first.data(),
      part.first_scale.data(), part.second.data(), part.second_scale.data(), part.copy.data(), chunks.data(), 0,
      kChunkCount - 1, s.data(), kGroups, &r, part.weights.data(), part.updates.data());
  State expected = whole;
  cut_all(expected);
  EXPECT_TRUE(part == expected);
}

/// bitsandbytes' bound: from equal moments, one step at a rate of 1e-3 moves weights nearly as AdamW in fp32 does.
TEST(AdamwInt8, OneStepIsNearlyThatOfFp32) {
  constexpr int kCount = 16384;
  std::vector<float> master = random_values<float>(kCount, 1, 0.02), gradient = random_values<float>(kCount, 2, 1e-3),
                     m(kCount), v(kCount), scales(2 * kCount / kStateBlock);
  // Moments as gradients leave them, of rows with very different sizes.
  std::mt19937 engine(4);
  std::normal_distribution<float> normal;
  for (int e = 0; e < kCount; ++e) {
    const float size = std::pow(10.0f, 0.5f * static_cast<float>(e / 64 % 5)) * 1e-4f;
    gradient[e] *= size / 1e-3f;
    m[e] = 0.3f * size * normal(engine);
    v[e] = size * size * (0.5f + std::abs(normal(engine)));
  }
  std::vector<dynamic8> first(kCount);
  std::vector<udynamic8> second(kCount);
  std::vector<float> first_scale, second_scale;
  for (int begin = 0; begin < kCount; begin += kStateBlock) {
    float most_m = 0, most_v = 0;
    for (int e = begin; e < begin + kStateBlock; ++e)
      most_m = std::max(most_m, std::abs(m[e])), most_v = std::max(most_v, v[e]);
    const BlockScale of_m(most_m), of_v(most_v);
    for (int e = begin; e < begin + kStateBlock; ++e)
      first[e] = from_float<dynamic8>(of_m.signed_part(m[e])),
      second[e] = from_float<udynamic8>(of_v.unsigned_part(v[e]));
    first_scale.push_back(of_m.scale), second_scale.push_back(of_v.scale);
  }
  const Chunk chunk{0, 0, kCount, 0, 0};
  const GroupScalars group{1e-3f, 0.01f};
  const std::vector<AdamwScalars> s = scalars();
  StepResults r = results();
  r.clip_scale = 1;
  std::vector<float> wide = master, narrow = master, sums(1);
  std::vector<bf16> copy(kCount);
  run(1, adamw_bf16_false, wide.data(), gradient.data(), m.data(), v.data(), nullptr, &chunk, 0, 1, s.data(), &group,
      &r, nullptr, nullptr);
  run(1, adamw_int8_copy, narrow.data(), nullptr, nullptr, gradient.data(), first.data(), first_scale.data(),
      second.data(), second_scale.data(), copy.data(), &chunk, 0, 1, s.data(), &group, &r, sums.data(), sums.data());
  double difference = 0, moved = 0;
  for (int e = 0; e < kCount; ++e)
    difference += std::abs(static_cast<double>(wide[e]) - narrow[e]), moved += std::abs(wide[e] - master[e]);
  EXPECT_LT(difference / kCount, 6e-5);
  EXPECT_GT(difference / kCount, 1e-7) << "8 bits are not 32";
  EXPECT_GT(moved / kCount, 1e-4) << "the step is large enough to tell";
}

}  // namespace
}  // namespace llmc
