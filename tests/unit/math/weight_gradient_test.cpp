// The weight gradient in tiles against sums in double, for any number of threads; and the model of the tiles against
// the instructions where this machine has them.
#include "math/tiles/weight_gradient.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "device/cpu/arch.h"

namespace llmc {

/// runtime/math/tiles/weight_gradient.cpp by the model.
void weight_gradient_soft(const GemmShape& shape, const void* a, const void* b, void* d, bool accumulate, int part,
                          int parts, void* copies);

namespace {

using Half = std::uint16_t;

float widen(Half half) {
  const std::uint32_t word = static_cast<std::uint32_t>(half) << 16;
  float value;
  std::memcpy(&value, &word, 4);
  return value;
}

GemmShape shape(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t padding) {
  return {.m = m,
          .n = n,
          .k = k,
          .transpose_a = true,
          .pitch_a = m + 8,
          .pitch_b = n + 24,
          .pitch_d = n + padding,
          .operand = DType::bf16,
          .result = DType::f32,
          .accumulates = true};
}

/// Each way through the kernel: A the wide operand and B, two depths of k and several chunks, more columns than a panel
/// has, strips that make no whole group, a D that goes past the caches (its rows begin on cache lines) and one that
/// does not.
std::vector<GemmShape> shapes() {
  return {shape(96, 64, 2144, 8), shape(64, 96, 2144, 16), shape(320, 288, 288, 0), shape(288, 352, 64, 4)};
}

struct Product {
  GemmShape shape;
  std::vector<Half> a, b;
  std::vector<float> before;

  explicit Product(const GemmShape& s) : shape(s) {
    std::mt19937 engine(1);
    std::normal_distribution<float> normal;
    const auto half = [&] {
      const float value = normal(engine);
      std::uint32_t word;
      std::memcpy(&word, &value, 4);
      return static_cast<Half>(word >> 16);
    };
    a.resize(shape.k * shape.pitch_a), b.resize(shape.k * shape.pitch_b), before.resize(shape.m * shape.pitch_d);
    for (Half& x : a) x = half();
    for (Half& x : b) x = half();
    for (float& x : before) x = normal(engine);
  }

  template <class Kernel>
  std::vector<float> run(Kernel kernel, bool accumulate, int parts) const {
    const auto aligned = [](std::vector<float>& v) {
      return v.data() + (64 - reinterpret_cast<std::uintptr_t>(v.data()) % 64) % 64 / 4;
    };
    std::vector<float> d(before.size() + 16), copies(weight_gradient_bytes(shape) / 4 + 16);
    std::copy(before.begin(), before.end(), aligned(d));
    for (int part = 0; part < parts; ++part)
      kernel(shape, a.data(), b.data(), aligned(d), accumulate, part, parts, aligned(copies));
    return {aligned(d), aligned(d) + before.size()};
  }
};

TEST(WeightGradient, MatchesSumsInDouble) {
  for (const GemmShape& s : shapes()) {
    const Product p(s);
    ASSERT_TRUE(is_weight_gradient(s));
    for (const bool accumulate : {false, true}) {
      const std::vector<float> d = p.run(weight_gradient_soft, accumulate, 1);
      for (std::int64_t i = 0; i < s.m; ++i) {
        for (std::int64_t j = 0; j < s.n; ++j) {
          double sum = accumulate ? p.before[i * s.pitch_d + j] : 0, magnitude = std::abs(sum);
          for (std::int64_t l = 0; l < s.k; ++l) {
            const double term = double(widen(p.a[l * s.pitch_a + i])) * widen(p.b[l * s.pitch_b + j]);
            sum += term, magnitude += std::abs(term);
          }
          // As in gemm_test.cpp: 4 times the square root of the number of roundings.
          ASSERT_NEAR(d[i * s.pitch_d + j], sum, 4 * std::sqrt(double(s.k)) * std::ldexp(magnitude, -24))
              << s.m << " x " << s.n << " x " << s.k << ": " << i << ", " << j;
        }
        for (std::int64_t j = s.n; j < s.pitch_d; ++j)
          ASSERT_EQ(d[i * s.pitch_d + j], p.before[i * s.pitch_d + j]) << "padding was written";
      }
    }
  }
}

TEST(WeightGradient, AnyNumberOfThreadsGivesTheSameBits) {
  for (const GemmShape& s : shapes()) {
    const Product p(s);
    const std::vector<float> one = p.run(weight_gradient_soft, true, 1);
    for (const int parts : {2, 3, 4, 7}) EXPECT_EQ(p.run(weight_gradient_soft, true, parts), one) << parts;
  }
}

TEST(WeightGradient, TheModelHasTheInstructionsBits) {
  if (!cpu_supports("sapphirerapids")) {
    std::printf("this machine has no tiles: the model alone was tested\n");
    return;
  }
  require_tiles();
  for (const GemmShape& s : shapes()) {
    const Product p(s);
    for (const bool accumulate : {false, true})
      EXPECT_EQ(p.run(weight_gradient, accumulate, 2), p.run(weight_gradient_soft, accumulate, 1));
  }
}

TEST(WeightGradient, LeavesOtherProductsAlone) {
  const GemmShape good = shapes().front();
  const auto changed = [&](auto change) {
    GemmShape shape = good;
    change(shape);
    return is_weight_gradient(shape);
  };
  EXPECT_FALSE(changed([](GemmShape& s) { s.m = 112; }));
  EXPECT_FALSE(changed([](GemmShape& s) { s.n = 72; }));
  EXPECT_FALSE(changed([](GemmShape& s) { s.k = 1040; }));
  EXPECT_FALSE(changed([](GemmShape& s) { s.transpose_a = false; }));
  EXPECT_FALSE(changed([](GemmShape& s) { s.transpose_b = true; }));
  EXPECT_FALSE(changed([](GemmShape& s) { s.operand = DType::f32; }));
  EXPECT_FALSE(changed([](GemmShape& s) { s.result = DType::bf16; }));
  EXPECT_FALSE(changed([](GemmShape& s) { s.residual = true; }));
}

}  // namespace
}  // namespace llmc
