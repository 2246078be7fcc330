// Checks the software model of AMX's tile products against double, at edge cases, and bit by bit against the
// instructions if there are any.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "device/cpu/arch.h"

namespace llmc {

/// c [32, 32] += a [32, 64] b [64, 32]: a by rows, b in pairs along the sum.
void multiply_block_soft(const float* a, const float* b, float* c);
void multiply_block_hard(const float* a, const float* b, float* c);

namespace {

struct Operands {
  std::vector<float> a = std::vector<float>(1024), b = a, c = a;
};

float widened(std::uint32_t half) {
  const std::uint32_t word = half << 16;
  float value;
  std::memcpy(&value, &word, 4);
  return value;
}

std::uint32_t bits(float value) {
  std::uint32_t word;
  std::memcpy(&word, &value, 4);
  return word;
}

/// Element k of row or column `i` of an operand whose words are `pitch` apart along the sum.
float element(const std::vector<float>& words, std::size_t i, std::size_t k, bool rows) {
  const std::uint32_t word = bits(rows ? words[i * 32 + k / 2] : words[k / 2 * 32 + i]);
  return widened(k % 2 ? word >> 16 : word & 0xffff);
}

template <class Half, class Sum>
Operands filled(Half half, Sum sum) {
  Operands all;
  for (std::vector<float>* words : {&all.a, &all.b})
    for (float& word : *words) {
      const std::uint32_t two = half() | half() << 16;
      std::memcpy(&word, &two, 4);
    }
  for (float& value : all.c) value = sum();
  return all;
}

TEST(Tiles, MultiplyAsDoubleDoes) {
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  const Operands in = filled([&] { return bits(normal(engine)) >> 16; }, [&] { return normal(engine); });
  std::vector<float> c = in.c;
  multiply_block_soft(in.a.data(), in.b.data(), c.data());
  for (std::size_t i = 0; i < 1024; ++i) {
    double want = in.c[i], size = std::abs(want);
    for (std::size_t k = 0; k < 64; ++k) {
      const double product = double(element(in.a, i / 32, k, true)) * element(in.b, i % 32, k, false);
      want += product, size += std::abs(product);
    }
    ASSERT_NEAR(c[i], want, 36 * 0x1p-24 * size) << i;  // 16 roundings of each half's sum and two more, twice
  }
}

TEST(Tiles, DenormalsAreZero) {
  // Row 0 of a times column 0 of b: one product of 2^-60 2^-70, below fp32's normal range.
  Operands in;
  const std::uint32_t small_a = (127 - 60) << 7, small_b = (127 - 70) << 7;
  std::memcpy(&in.a[0], &small_a, 4);
  std::memcpy(&in.b[0], &small_b, 4);
  in.c[1] = 0x1p-140f;
  multiply_block_soft(in.a.data(), in.b.data(), in.c.data());
  EXPECT_EQ(bits(in.c[0]), 0u);
  EXPECT_EQ(bits(in.c[1]), 0u);
}

TEST(Tiles, TheModelHasTheInstructionsBits) {
  if (!cpu_has_tiles()) GTEST_SKIP() << "this processor has no AMX tiles";
  require_tiles();
  std::mt19937 engine(2);
  std::normal_distribution<float> normal;
  for (int round = 0; round < 60; ++round) {
    // Products near the smallest and the largest numbers, and plain ones.
    const auto half = [&]() -> std::uint32_t {
      const int shift = round % 3 == 0 ? 0 : round % 3 == 1 ? -64 + static_cast<int>(engine() % 8) : 60;
      if (round >= 57) return engine() & 0xffffu;  // all exponents, denormals and infinities too
      return bits(std::ldexp(normal(engine), shift)) >> 16;
    };
    const Operands in = filled(half, [&] { return widened(half()); });
    std::vector<float> soft = in.c, hard = in.c;
    multiply_block_soft(in.a.data(), in.b.data(), soft.data());
    multiply_block_hard(in.a.data(), in.b.data(), hard.data());
    for (std::size_t i = 0; i < 1024; ++i) {
      if (std::isnan(soft[i]) && std::isnan(hard[i])) continue;  // any NaN is accepted
      ASSERT_EQ(bits(soft[i]), bits(hard[i])) << "round " << round << ", element " << i;
    }
  }
}

}  // namespace
}  // namespace llmc
