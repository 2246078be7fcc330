// Compares cuBLASLt's GEMMs of codes, scaled by rows or by tensors, with sums in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "device/fp8.h"
#include "error.h"
#include "math/cublaslt/product.h"
#include "math/fp8_sums.h"
#include "math/gemm.h"
#include "math/tuning.h"
#include "numbers.h"

namespace llmc {
namespace {

constexpr std::size_t kWorkspace = std::size_t{32} << 20;

/// x [m, k] times the transpose of a weight [n, k].
GemmShape make(std::int64_t m, std::int64_t n, std::int64_t k, DType result) {
  return {.name = "gate_up",
          .m = m,
          .n = n,
          .k = k,
          .transpose_b = true,
          .pitch_a = k + 16,
          .pitch_b = k + 32,
          .pitch_d = n + 16,
          .operand = DType::e4m3,
          .result = result,
          .scaling = Scaling::rows};
}

/// The same with one scale for each operand.
GemmShape of_tensors(GemmShape shape, bool e5m2_a) {
  shape.scaling = Scaling::tensors;
  shape.e5m2_a = e5m2_a;
  return shape;
}

/// Codes of a matrix with padding, in the order of memory, and the scales of its rows, or its only one.
struct Operand {
  std::vector<unsigned char> codes;
  std::vector<float> scales;
  bool in_e5m2 = false;
  double at(std::int64_t row, std::int64_t pitch, std::int64_t k) const {
    const unsigned char code = codes[static_cast<std::size_t>(row * pitch + k)];
    return in_e5m2 ? to_float(e5m2{code}) : to_float(e4m3{code});
  }
  double scale(std::int64_t row) const { return scales[scales.size() == 1 ? 0 : static_cast<std::size_t>(row)]; }
};

/// Device memory of `values`, `offset` bytes past a multiple of 256.
template <class T>
T* put(Device& device, Pieces& pieces, const std::vector<T>& values, std::size_t offset = 0) {
  std::byte* const piece = pieces.take(values.size() * sizeof(T) + offset) + offset;
  device.copy_in(piece, values.data(), values.size() * sizeof(T));
  return reinterpret_cast<T*>(piece);
}

std::vector<bf16> narrow(const std::vector<float>& values) {
  std::vector<bf16> all;
  for (float v : values) all.push_back(from_float<bf16>(v));
  return all;
}

/// Integers up to `most`, of either sign.
std::vector<float> integers(std::int64_t count, int most, unsigned seed) {
  std::mt19937 generator(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& v : values) v = static_cast<float>(static_cast<int>(generator() % (2u * most + 1)) - most);
  return values;
}

/// Integers up to 6 are numbers of either format.
Operand integer_operand(const GemmMatrix& matrix, std::int64_t scales, unsigned seed) {
  Operand operand;
  operand.in_e5m2 = matrix.dtype == DType::e5m2;
  for (float v : integers(matrix.rows * matrix.pitch, 6, seed))
    operand.codes.push_back(operand.in_e5m2 ? from_float<e5m2>(v).bits : from_float<e4m3>(v).bits);
  for (float v : integers(scales, 3, seed + 100)) operand.scales.push_back(std::exp2(v));
  return operand;
}

struct Case {
  const char* name;
  GemmShape shape;
};

/// For GoogleTest, which would print a case as bytes.
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class ScaledGemms_gpu : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string(device.description()).find("sm_90") == std::string::npos)
      GTEST_SKIP() << "only sm_90 has scales of rows, and this is " << device.description();
  }

  Device device{0, 0};
  Pieces pieces{device, std::size_t{128} << 20};
};

class ScaledGemm_gpu : public ScaledGemms_gpu, public testing::WithParamInterface<Case> {};

/// Any order and width of sums is exact below 2^14, so the bits tell which numbers were multiplied and added.
TEST_P(ScaledGemm_gpu, IntegersAreExact) {
  const GemmShape& s = GetParam().shape;
  MathLibrary library(device, pieces.take(kWorkspace), kWorkspace);
  const Gemm gemm(library, s);
  const Operand x = integer_operand(s.a(), s.scales_a(), 1), w = integer_operand(s.b(), s.scales_b(), 2);
  const auto bias = integers(s.n, 100, 3), c = integers(s.m * s.pitch_d, 64, 4),
             before = integers(s.m * s.pitch_d, 64, 5);
  const auto place = [&](const std::vector<float>& values, DType type, std::size_t offset = 0) -> void* {
    if (type == DType::bf16) return put(device, pieces, narrow(values), offset);
    return put(device, pieces, values, offset);
  };
  void* const d = place(before, s.result, s.align_d % kArenaAlignment);
  const GemmOperands operands = {.a = put(device, pieces, x.codes, s.align_a % kArenaAlignment),
                                 .b = put(device, pieces, w.codes, s.align_b % kArenaAlignment),
                                 .bias = s.bias ? place(bias, s.bias_dtype()) : nullptr,
                                 .c = s.residual ? place(c, s.result) : nullptr,
                                 .d = d,
                                 .accumulate = s.accumulates,
                                 .scale_a = put(device, pieces, x.scales),
                                 .scale_b = put(device, pieces, w.scales)};
  gemm(device.stream(), operands);
  const auto got = s.result == DType::bf16 ? pieces.get(static_cast<bf16*>(d), before.size())
                                           : pieces.get(static_cast<float*>(d), before.size());
  for (std::int64_t i = 0; i < s.m; ++i)
    for (std::int64_t j = 0; j < s.pitch_d; ++j) {
      const auto at = static_cast<std::size_t>(i * s.pitch_d + j);
      if (j >= s.n) {
        ASSERT_EQ(got[at], before[at]) << "padding was written";
        continue;
      }
      double sum = 0;
      for (std::int64_t k = 0; k < s.k; ++k) sum += x.at(i, s.pitch_a, k) * w.at(j, s.pitch_b, k);
      const auto exact = static_cast<float>(s.alpha * x.scale(i) * w.scale(j) * sum +
                                            (s.bias ? bias[static_cast<std::size_t>(j)] : 0.0) +
                                            s.beta * ((s.residual ? c[at] : 0.0) + (s.accumulates ? before[at] : 0.0)));
      ASSERT_EQ(got[at], s.result == DType::bf16 ? to_float(from_float<bf16>(exact)) : exact) << i << ", " << j;
    }
}

GemmShape with(GemmShape shape, bool bias, bool residual, bool accumulates, bool fast) {
  shape.bias = bias;
  shape.residual = residual;
  shape.accumulates = accumulates;
  shape.fast_accumulation = fast;
  return shape;
}

GemmShape aligned(GemmShape shape, std::uint32_t a, std::uint32_t b, std::uint32_t d) {
  shape.align_a = a, shape.align_b = b, shape.align_d = d, shape.align_c = d;
  return shape;
}

GemmShape times(GemmShape shape, float alpha, float beta) {
  shape.alpha = alpha;
  shape.beta = beta;
  return shape;
}

constexpr DType kHalf = DType::bf16, kFull = DType::f32;

INSTANTIATE_TEST_SUITE_P(
    Shapes, ScaledGemm_gpu,
    testing::Values(Case{"forward", make(96, 80, 208, kHalf)},
                    Case{"forward_fast", with(make(96, 80, 208, kHalf), false, false, false, true)},
                    Case{"forward_bias", with(make(96, 80, 208, kHalf), true, false, false, true)},
                    Case{"forward_residual", with(make(96, 80, 208, kHalf), false, true, false, false)},
                    Case{"forward_bias_residual", with(make(96, 80, 208, kHalf), true, true, false, true)},
                    Case{"odd_rows", make(51, 80, 208, kHalf)}, Case{"full", make(96, 80, 208, kFull)},
                    Case{"full_bias", with(make(96, 80, 208, kFull), true, false, false, false)},
                    Case{"full_residual", with(make(96, 80, 208, kFull), false, true, false, true)},
                    Case{"full_bias_residual", with(make(33, 80, 208, kFull), true, true, false, false)},
                    Case{"weight_gradient_added", with(make(80, 208, 96, kFull), false, false, true, false)},
                    Case{"weight_gradient_added_fast", with(make(80, 208, 96, kFull), false, false, true, true)},
                    Case{"alpha_beta", times(with(make(96, 80, 208, kFull), false, true, false, false), 0.5f, -2)},
                    Case{"alignment_of_16_bytes", aligned(make(96, 80, 208, kHalf), 16, 64, 32)},
                    Case{"tensors", of_tensors(make(96, 80, 208, kHalf), false)},
                    Case{"tensors_fast_bias_residual",
                         of_tensors(with(make(96, 80, 208, kHalf), true, true, false, true), false)},
                    Case{"data_gradient_of_tensors", of_tensors(make(96, 80, 208, kHalf), true)},
                    Case{"weight_gradient_of_tensors_added",
                         of_tensors(with(make(80, 208, 96, kFull), false, false, true, false), true)}),
    [](const auto& info) { return std::string(info.param.name); });

/// Rows of normal numbers, each of its own size, as codes and scales.
struct Quantised : Operand {
  std::vector<float> exact;
  Quantised(std::int64_t rows, std::int64_t cols, unsigned seed)
      : exact(normal(static_cast<std::size_t>(rows * cols), seed)) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto first = exact.begin() + r * cols, last = first + cols;
      float largest = 0;
      for (auto v = first; v != last; ++v) {
        *v *= std::exp2(static_cast<float>(r % 21) - 10) * 1.3f;
        largest = std::max(largest, std::abs(*v));
      }
      scales.push_back(e4m3_scale(largest));
      for (auto v = first; v != last; ++v) codes.push_back(from_float<e4m3>(*v / scales.back()).bits);
    }
  }
};

/// 31.5 - 3 dB from the rounding of both operands, less what the scales leave of the range.
TEST_F(ScaledGemms_gpu, NormalNumbersKeep27Decibels) {
  std::vector<std::vector<float>> results;
  for (const bool fast : {false, true})
    for (const DType result : {kFull, kHalf}) {
      GemmShape s = with(make(64, 48, 2048, result), false, false, false, fast);
      s.pitch_a = s.pitch_b = s.k, s.pitch_d = s.n;
      Pieces own(device, std::size_t{64} << 20);
      MathLibrary library(device, own.take(kWorkspace), kWorkspace);
      const Gemm gemm(library, s);
      const Quantised x(s.m, s.k, 1), w(s.n, s.k, 2);
      const auto size = static_cast<std::size_t>(s.m * s.n);
      void* const d = own.take(size * sizeof(float));
      gemm(device.stream(), {.a = put(device, own, x.codes),
                             .b = put(device, own, w.codes),
                             .d = d,
                             .scale_a = put(device, own, x.scales),
                             .scale_b = put(device, own, w.scales)});
      const auto got = result == kHalf ? own.get(static_cast<bf16*>(d), size) : own.get(static_cast<float*>(d), size);
      RelativeError error;  // of elements in units of their rows
      for (std::int64_t i = 0; i < s.m; ++i)
        for (std::int64_t j = 0; j < s.n; ++j) {
          double sum = 0;
          for (std::int64_t k = 0; k < s.k; ++k)
            sum += static_cast<double>(x.exact[static_cast<std::size_t>(i * s.k + k)]) *
                   w.exact[static_cast<std::size_t>(j * s.k + k)];
          const double unit =
              static_cast<double>(x.scales[static_cast<std::size_t>(i)]) * w.scales[static_cast<std::size_t>(j)];
          error.add(got[static_cast<std::size_t>(i * s.n + j)] / unit, sum / unit);
        }
      EXPECT_GE(-20 * std::log10(error.value()), 27) << (fast ? "fast " : "") << name_of(result);
      results.push_back(got);
    }
  EXPECT_NE(results[0], results[2]) << "a sum of 2048 has more bits than the tensor core's width";
}

/// Sums of many terms in the tensor core's width, which is cut after every few of them.
TEST_F(ScaledGemms_gpu, LongSumsStayInTheBoundThatVerifyHas) {
  for (const bool fast : {false, true})
    for (const std::int64_t k : {2048, 28672}) {
      GemmShape s = with(make(64, 64, k, kFull), false, false, false, fast);
      s.pitch_a = s.pitch_b = s.k, s.pitch_d = s.n;
      Pieces own(device, std::size_t{64} << 20);
      MathLibrary library(device, own.take(kWorkspace), kWorkspace);
      const Quantised x(s.m, s.k, 1), w(s.n, s.k, 2);
      float* const d = reinterpret_cast<float*>(own.take(static_cast<std::size_t>(s.m * s.n) * sizeof(float)));
      Gemm(library, s)(device.stream(), {.a = put(device, own, x.codes),
                                         .b = put(device, own, w.codes),
                                         .d = d,
                                         .scale_a = put(device, own, x.scales),
                                         .scale_b = put(device, own, w.scales)});
      const auto got = own.get(d, static_cast<std::size_t>(s.m * s.n));
      for (std::int64_t i = 0; i < s.m; ++i) {
        std::vector<double> errors, norms;
        double largest = 0;
        for (std::int64_t j = 0; j < s.n; ++j) {
          double sum = 0, squares_x = 0, squares_w = 0;
          for (std::int64_t l = 0; l < k; ++l) {
            const double a = x.at(i, k, l), b = w.at(j, k, l);
            sum += a * b, squares_x += a * a, squares_w += b * b;
          }
          const double unit = x.scale(i) * w.scale(j);
          errors.push_back(std::abs(got[static_cast<std::size_t>(i * s.n + j)] - unit * sum));
          norms.push_back(unit * std::sqrt(squares_x * squares_w));
          largest = std::max(largest, std::abs(unit * sum));
        }
        for (std::size_t j = 0; j < errors.size(); ++j)
          ASSERT_LE(errors[j], kFp8Accumulation * norms[j] + cut_by_fast_accumulation(s) * largest)
              << i << " " << j << " of " << k << (fast ? " fast" : "");
      }
    }
}

TEST_F(ScaledGemms_gpu, AScaleThatIsNoNumberPoisonsItsRow) {
  GemmShape s = make(32, 32, 64, kFull);
  s.pitch_a = s.pitch_b = s.k, s.pitch_d = s.n;
  MathLibrary library(device, pieces.take(kWorkspace), kWorkspace);
  const Gemm gemm(library, s);
  std::vector<float> scales(32, 1.0f);
  scales[5] = e4m3_scale(INFINITY);
  const std::vector<e4m3> zeros(32 * 64);
  float* const d = put(device, pieces, std::vector<float>(32 * 32));
  gemm(device.stream(), {.a = put(device, pieces, zeros),
                         .b = put(device, pieces, zeros),
                         .d = d,
                         .scale_a = put(device, pieces, scales),
                         .scale_b = put(device, pieces, std::vector<float>(32, 1.0f))});
  const auto got = pieces.get(d, 32 * 32);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(std::isnan(got[i]), i / 32 == 5) << i;
}

TEST_F(ScaledGemms_gpu, ACallWithoutScalesIsAnInternalError) {
  MathLibrary library(device, pieces.take(kWorkspace), kWorkspace);
  const Gemm gemm(library, make(32, 32, 64, kFull));
  try {
    gemm(device.stream(), {.d = pieces.take(1 << 16), .scale_a = put(device, pieces, std::vector<float>(32))});
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), Exit::internal);
    EXPECT_NE(std::string(failure.what()).find("gate_up"), std::string::npos) << failure.what();
  }
}

TEST_F(ScaledGemms_gpu, AShapeThatTheLibraryRefusesIsNamed) {
  MathLibrary library(device, pieces.take(kWorkspace), kWorkspace);
  try {
    const Gemm gemm(library, make(32, 32, 72, kFull));
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), Exit::toolchain);
    for (const char* fact : {"gate_up", "[m 32, n 32, k 72]", "e4m3", "scaled by rows", "sm_90"})
      EXPECT_NE(std::string(failure.what()).find(fact), std::string::npos) << failure.what();
  }
}

/// As where a trainer only describes its tuned algorithms.
TEST_F(ScaledGemms_gpu, AreFoundWithoutAWorkspace) {
  MathLibrary::Impl library(nullptr, kWorkspace);
  const LtProduct product(library, make(96, 80, 208, kHalf));
  const auto found = product.candidates(1, kUntunedWorkspace);
  EXPECT_EQ(product.workspace_of(found.at(0).algorithm), found.at(0).workspace_bytes);
}

/// `trainer tune` offers the library's algorithms for them, like those of other products.
TEST_F(ScaledGemms_gpu, AreTuned) {
  const GemmShape shapes[] = {make(96, 80, 208, kHalf), with(make(96, 80, 208, kHalf), true, true, false, true),
                              aligned(with(make(80, 208, 96, kFull), false, false, true, false), 16, 16, 16),
                              of_tensors(make(96, 80, 208, kHalf), true)};
  std::vector<std::string> tuned;
  const std::string file =
      tune_products(device, shapes, kTunedWorkspace, {.sustained_ms = 0}, [&](const TunedProduct& p) {
        EXPECT_GE(p.candidates, 1);
        EXPECT_GT(p.best_ms, 0);
        EXPECT_TRUE(std::isfinite(p.first_ms));
        tuned.push_back(p.shape.name);
      });
  EXPECT_EQ(tuned.size(), 4u);
  EXPECT_NE(file.find("pitch 240 transposed e4m3 -> [96, 80] pitch 96 bf16, scaled by rows, aligned"),
            std::string::npos)
      << file;
  EXPECT_NE(file.find("scaled by rows, fast accumulation, aligned"), std::string::npos) << file;
  EXPECT_NE(file.find("pitch 96 bf16, scaled by tensors, aligned"), std::string::npos) << file;
  // Without a tuned.json next to this test.
  EXPECT_NE(describe_tuning(shapes, kTunedWorkspace, 0).find("cuBLASLt "), std::string::npos);
}

}  // namespace
}  // namespace llmc
