// The weight gradient in tiles against sums in double, for any number of threads; and the model of the tiles against
// the instructions where this machine has them.
#include "math/tiles/weight_gradient.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "device/cpu/arch.h"
#include "math/onednn/support.h"

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

struct Product {
  // Two chunks of k and one step of 32 more; more padding than rows need.
  GemmShape shape{.m = 96,
                  .n = 64,
                  .k = 1056,
                  .transpose_a = true,
                  .pitch_a = 104,
                  .pitch_b = 88,
                  .pitch_d = 72,
                  .operand = DType::bf16,
                  .result = DType::f32,
                  .accumulates = true};
  std::vector<Half> a, b;
  std::vector<float> before;

  Product() {
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
    std::vector<float> d = before;
    std::vector<std::byte> copies(weight_gradient_bytes(shape) + 64);
    void* aligned = copies.data() + (64 - reinterpret_cast<std::uintptr_t>(copies.data()) % 64) % 64;
    for (int part = 0; part < parts; ++part)
      kernel(shape, a.data(), b.data(), d.data(), accumulate, part, parts, aligned);
    return d;
  }
};

TEST(WeightGradient, MatchesSumsInDouble) {
  const Product p;
  ASSERT_TRUE(is_weight_gradient(p.shape));
  for (const bool accumulate : {false, true}) {
    const std::vector<float> d = p.run(weight_gradient_soft, accumulate, 1);
    for (std::int64_t i = 0; i < p.shape.m; ++i) {
      for (std::int64_t j = 0; j < p.shape.n; ++j) {
        double sum = accumulate ? p.before[i * p.shape.pitch_d + j] : 0, magnitude = std::abs(sum);
        for (std::int64_t l = 0; l < p.shape.k; ++l) {
          const double term = double(widen(p.a[l * p.shape.pitch_a + i])) * widen(p.b[l * p.shape.pitch_b + j]);
          sum += term, magnitude += std::abs(term);
        }
        // As in gemm_test.cpp: 4 times the square root of the number of roundings.
        ASSERT_NEAR(d[i * p.shape.pitch_d + j], sum, 4 * std::sqrt(double(p.shape.k)) * std::ldexp(magnitude, -24))
            << i << ", " << j;
      }
      for (std::int64_t j = p.shape.n; j < p.shape.pitch_d; ++j)
        ASSERT_EQ(d[i * p.shape.pitch_d + j], p.before[i * p.shape.pitch_d + j]) << "padding was written";
    }
  }
}

TEST(WeightGradient, AnyNumberOfThreadsGivesTheSameBits) {
  const Product p;
  const std::vector<float> one = p.run(weight_gradient_soft, true, 1);
  for (const int parts : {2, 3, 4, 7}) EXPECT_EQ(p.run(weight_gradient_soft, true, parts), one) << parts;
}

TEST(WeightGradient, TheModelHasTheInstructionsBits) {
  if (!uses_tiles()) {
    std::printf("this machine has no tiles: the model alone was tested\n");
    return;
  }
  require_tiles();
  const Product p;
  for (const bool accumulate : {false, true})
    EXPECT_EQ(p.run(weight_gradient, accumulate, 2), p.run(weight_gradient_soft, accumulate, 1));
}

TEST(WeightGradient, LeavesOtherProductsAlone) {
  const GemmShape good = Product().shape;
  const auto changed = [&](auto change) {
    GemmShape shape = good;
    change(shape);
    return is_weight_gradient(shape);
  };
  EXPECT_FALSE(changed([](GemmShape& s) { s.m = 112; }));
  EXPECT_FALSE(changed([](GemmShape& s) { s.n = 72; }));
  EXPECT_FALSE(changed([](GemmShape& s) { s.k = 1040; }));
  EXPECT_FALSE(changed([](GemmShape& s) { s.n = 128; }));
  EXPECT_FALSE(changed([](GemmShape& s) { s.transpose_a = false; }));
  EXPECT_FALSE(changed([](GemmShape& s) { s.transpose_b = true; }));
  EXPECT_FALSE(changed([](GemmShape& s) { s.operand = DType::f32; }));
  EXPECT_FALSE(changed([](GemmShape& s) { s.result = DType::bf16; }));
  EXPECT_FALSE(changed([](GemmShape& s) { s.residual = true; }));
}

}  // namespace
}  // namespace llmc
