// Compares the weight gradient in tiles with sums in double, for any number of threads, and the tiles' software model
// with the instructions if this machine has them.
#include "math/tiles/weight_gradient.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "device/cpu/arch.h"
#include "tolerance.h"

namespace llmc {

/// runtime/math/tiles/weight_gradient.cpp compiled with the software model.
void weight_gradient_soft(const GemmShape& shape, const void* a, const void* b, void* d, bool accumulate, int part,
                          int parts, void* copies);

namespace {

GemmShape shape(DType operand, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t padding) {
  return {.m = m,
          .n = n,
          .k = k,
          .transpose_a = true,
          .pitch_a = m + 8,
          .pitch_b = n + 24,
          .pitch_d = n + padding,
          .operand = operand,
          .result = DType::f32,
          .accumulates = true,
          .tiles = true};
}

/// Covers every path through the kernel: both operand types, A or B as the wide one, two depths of k (three for fp32),
/// several chunks, more columns than a panel, strips that fill no whole group, D with streaming stores (its rows
/// aligned to cache lines) and without, alpha and beta.
std::vector<GemmShape> shapes() {
  std::vector<GemmShape> all;
  for (const DType operand : {DType::bf16, DType::f32})
    all.insert(all.end(), {shape(operand, 96, 64, 2144, 8), shape(operand, 64, 96, 2144, 16),
                           shape(operand, 320, 288, 288, 0), shape(operand, 288, 352, 64, 4)});
  for (std::size_t i = 1; i < all.size(); i += 2) all[i].alpha = -4.775f, all[i].beta = 2.0315f;
  return all;
}

struct Product {
  GemmShape shape;
  std::vector<std::uint16_t> a, b;  // bf16, or halves of fp32
  std::vector<float> before;

  explicit Product(const GemmShape& s) : shape(s) {
    std::mt19937 engine(1);
    std::normal_distribution<float> normal;
    const auto fill = [&](std::vector<std::uint16_t>& matrix, std::int64_t count) {
      matrix.resize(count * halves());
      for (std::int64_t i = 0; i < count; ++i) {
        const float value = normal(engine);
        std::uint16_t pair[2];
        std::memcpy(pair, &value, 4);
        std::copy(pair + 2 - halves(), pair + 2, matrix.begin() + i * halves());
      }
    };
    fill(a, shape.k * shape.pitch_a), fill(b, shape.k * shape.pitch_b);
    before.resize(shape.m * shape.pitch_d);
    for (float& x : before) x = normal(engine);
  }

  /// Halves per element; the index is of its upper one.
  int halves() const { return shape.operand == DType::f32 ? 2 : 1; }
  float at(const std::vector<std::uint16_t>& matrix, std::int64_t i) const {
    std::uint16_t pair[2] = {};
    std::copy_n(matrix.begin() + i * halves(), halves(), pair + 2 - halves());
    float value;
    std::memcpy(&value, pair, 4);
    return value;
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
          Terms terms;
          for (std::int64_t l = 0; l < s.k; ++l)
            terms.multiply(p.at(p.a, l * s.pitch_a + i), p.at(p.b, l * s.pitch_b + j));
          terms.scale(s.alpha);
          if (accumulate) terms.add(s.beta * p.before[i * s.pitch_d + j]);
          ASSERT_NEAR(d[i * s.pitch_d + j], terms.sum, terms.tolerance(s))
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
  if (!cpu_has_tiles()) GTEST_SKIP() << "this processor has no AMX tiles";
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
  EXPECT_FALSE(changed([](GemmShape& s) { s.operand = DType::i32; }));
  EXPECT_FALSE(changed([](GemmShape& s) { s.result = DType::bf16; }));
  EXPECT_FALSE(changed([](GemmShape& s) { s.residual = true; }));
}

}  // namespace
}  // namespace llmc
