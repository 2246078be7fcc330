// Compares cuBLASLt's GEMMs with sums in double.
#include <gtest/gtest.h>

#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "error.h"
#include "math/gemm.h"
#include "numbers.h"

namespace llmc {
namespace {

struct Case {
  const char* name;
  GemmShape shape;
};

/// For GoogleTest, which would print a case as bytes.
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

constexpr std::int64_t padded(std::int64_t n) { return (n + 7) / 8 * 8; }

GemmShape make(std::int64_t m, std::int64_t n, std::int64_t k, bool transpose_a, bool transpose_b, DType operand,
               DType result) {
  return {.m = m,
          .n = n,
          .k = k,
          .transpose_a = transpose_a,
          .transpose_b = transpose_b,
          .pitch_a = padded(transpose_a ? m : k),
          .pitch_b = padded(transpose_b ? k : n),
          .pitch_d = padded(n),
          .operand = operand,
          .result = result};
}

GemmShape with(GemmShape shape, bool bias, bool residual, bool accumulates) {
  shape.bias = bias;
  shape.residual = residual;
  shape.accumulates = accumulates;
  return shape;
}

GemmShape times(GemmShape shape, float alpha, float beta) {
  shape.alpha = alpha;
  shape.beta = beta;
  return shape;
}

class Gemm_gpu : public testing::TestWithParam<Case> {};

TEST_P(Gemm_gpu, EqualsSumsInDouble) {
  const GemmShape& s = GetParam().shape;
  Device device(0, 0);
  Pieces pieces(device, std::size_t{128} << 20);
  MathLibrary library(device, pieces.take(std::size_t{32} << 20), std::size_t{32} << 20);
  const Gemm gemm(library, s);

  const std::int64_t rows_a = s.transpose_a ? s.k : s.m, rows_b = s.transpose_b ? s.n : s.k;
  const auto a = normal(static_cast<std::size_t>(rows_a * s.pitch_a), 1);
  const auto b = normal(static_cast<std::size_t>(rows_b * s.pitch_b), 2);
  const auto bias = normal(static_cast<std::size_t>(s.n), 3, 4.0f);
  const auto c = normal(static_cast<std::size_t>(s.m * s.pitch_d), 4, 8.0f);
  const auto before = normal(static_cast<std::size_t>(s.m * s.pitch_d), 5, 8.0f);
  const auto place = [&](const std::vector<float>& values, DType type) -> void* {
    if (type == DType::bf16) return pieces.put_bf16(values);
    return pieces.put(values);
  };
  const DType result = s.d().dtype;
  void *da = place(a, s.a().dtype), *db = place(b, s.b().dtype), *dbias = place(bias, result);
  void *dc = place(c, s.c().dtype), *dd = place(before, result);
  gemm(device.stream(), {da, db, s.bias ? dbias : nullptr, s.residual ? dc : nullptr, dd, s.accumulates});

  const auto got = s.result == DType::bf16 ? pieces.get(static_cast<bf16*>(dd), before.size())
                                           : pieces.get(static_cast<float*>(dd), before.size());
  RelativeError error;
  for (std::int64_t i = 0; i < s.m; ++i)
    for (std::int64_t j = 0; j < s.pitch_d; ++j) {
      const auto at = static_cast<std::size_t>(i * s.pitch_d + j);
      if (j >= s.n) {
        ASSERT_EQ(got[at], before[at]) << "padding was written";
        continue;
      }
      double sum = (s.bias ? bias[static_cast<std::size_t>(j)] : 0.0) +
                   s.beta * ((s.residual ? c[at] : 0.0) + (s.accumulates ? before[at] : 0.0));
      for (std::int64_t l = 0; l < s.k; ++l)
        sum += s.alpha *
               static_cast<double>(a[static_cast<std::size_t>(s.transpose_a ? l * s.pitch_a + i : i * s.pitch_a + l)]) *
               b[static_cast<std::size_t>(s.transpose_b ? j * s.pitch_b + l : l * s.pitch_b + j)];
      error.add(got[at], sum);
    }
  // One rounding to bf16 is at most 2^-9 and on average half of it. fp32 sums of at most 200 stay below 1e-6.
  EXPECT_LT(error.value(), s.result == DType::bf16 ? 0.002 : 2e-6);
}

constexpr DType kHalf = DType::bf16, kFull = DType::f32;

INSTANTIATE_TEST_SUITE_P(
    Shapes, Gemm_gpu,
    testing::Values(
        Case{"forward", make(96, 72, 200, false, true, kHalf, kHalf)},
        Case{"forward_bias", with(make(96, 72, 200, false, true, kHalf, kHalf), true, false, false)},
        Case{"forward_residual", with(make(96, 72, 200, false, true, kHalf, kHalf), false, true, false)},
        Case{"forward_bias_residual", with(make(96, 72, 200, false, true, kHalf, kHalf), true, true, false)},
        Case{"odd_columns", make(50, 77, 41, false, true, kHalf, kHalf)},
        Case{"logits", make(50, 77, 64, false, true, kHalf, kFull)},
        Case{"input_gradient", make(96, 200, 72, false, false, kHalf, kHalf)},
        Case{"weight_gradient", make(72, 200, 96, true, false, kHalf, kFull)},
        Case{"weight_gradient_added", with(make(72, 200, 96, true, false, kHalf, kFull), false, false, true)},
        Case{"fp32", make(96, 72, 200, false, true, kFull, kFull)},
        Case{"fp32_bias_residual", with(make(33, 47, 200, false, true, kFull, kFull), true, true, false)},
        Case{"fp32_weight_gradient_added", with(make(72, 45, 96, true, false, kFull, kFull), false, false, true)},
        Case{"alpha_bias_beta_residual",
             times(with(make(96, 72, 200, false, true, kHalf, kHalf), true, true, false), -4.775f, 2.0315f)},
        Case{"alpha_beta_added",
             times(with(make(72, 200, 96, true, false, kHalf, kFull), false, false, true), 2.0315f, -0.5f)},
        Case{"alpha_alone", times(make(96, 72, 200, false, true, kFull, kFull), 0.25f, 3)}),
    [](const auto& info) { return std::string(info.param.name); });

/// Of operands with whole mantissas.
TEST(GemmTf32_gpu, ReadsTenBitsOfTheMantissas) {
  GemmShape s = make(96, 72, 200, false, true, kFull, kFull);
  Device device(0, 0);
  Pieces pieces(device, std::size_t{64} << 20);
  MathLibrary library(device, pieces.take(std::size_t{32} << 20), std::size_t{32} << 20);
  std::mt19937 generator(7);
  std::normal_distribution<float> draw;
  std::vector<float> a(static_cast<std::size_t>(s.m * s.pitch_a)), b(static_cast<std::size_t>(s.n * s.pitch_b));
  for (std::vector<float>* values : {&a, &b})
    for (float& value : *values) value = draw(generator);
  const float *da = pieces.put(a), *db = pieces.put(b);
  float* const d = pieces.put(std::vector<float>(static_cast<std::size_t>(s.m * s.pitch_d)));
  for (const bool tf32 : {false, true}) {
    s.tf32 = tf32;
    Gemm(library, s)(device.stream(), {da, db, nullptr, nullptr, d, false});
    const std::vector<float> got = pieces.get(d, static_cast<std::size_t>(s.m * s.pitch_d));
    RelativeError error;
    for (std::int64_t i = 0; i < s.m; ++i)
      for (std::int64_t j = 0; j < s.n; ++j) {
        double sum = 0;
        for (std::int64_t l = 0; l < s.k; ++l)
          sum += static_cast<double>(a[static_cast<std::size_t>(i * s.pitch_a + l)]) *
                 b[static_cast<std::size_t>(j * s.pitch_b + l)];
        error.add(got[static_cast<std::size_t>(i * s.pitch_d + j)], sum);
      }
    EXPECT_LT(error.value(), tf32 ? kTf32 : 2e-6);
    EXPECT_GT(error.value(), tf32 ? 1e-4 : 0);
  }
}

TEST(GemmErrors_gpu, AShapeWithTwoAddendsIsNamed) {
  Device device(0, 0);
  MathLibrary library(device, device.allocate(std::size_t{32} << 20), std::size_t{32} << 20);
  try {
    const Gemm gemm(library, with(make(96, 72, 200, false, true, kHalf, kHalf), false, true, true));
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), Exit::toolchain);
    EXPECT_NE(std::string(failure.what()).find("[m 96, n 72, k 200]"), std::string::npos) << failure.what();
    EXPECT_NE(std::string(failure.what()).find("cuBLASLt "), std::string::npos) << failure.what();
  }
}

/// Alignments of a shape's operands are counted from the arena's start.
TEST(GemmErrors_gpu, AnArenaThatBeginsAnywhereIsRefused) {
  Device device(0, 0);
  std::byte* const memory = device.allocate(std::size_t{2} << 20);
  EXPECT_THROW(MathLibrary(device, memory + 128, std::size_t{1} << 20), Failure);
}

TEST(GemmErrors_gpu, AGpuWhoseSmsAreAllReservedIsNamed) {
  Device device(0, 0);
  try {
    const MathLibrary library(device, nullptr, 0, 100000);
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), Exit::usage);
    EXPECT_NE(std::string(failure.what()).find("parallel.reserved_sms is 100000, "), std::string::npos)
        << failure.what();
  }
}

}  // namespace
}  // namespace llmc
