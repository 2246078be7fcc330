// Products of 8-bit numbers: their sums and scales, and what cuBLASLt refuses, one rule at a time.
#include <cmath>
#include <cstdlib>
#include <string>

#include "../../unit/facts.h"
#include "../../unit/templates/fp8_codes.h"
#include "error.h"
#include "math/gemm.h"
#include "product.h"
#include "products.h"

namespace llmc {
namespace {

constexpr cudaDataType_t kE4m3 = CUDA_R_8F_E4M3, kE5m2 = CUDA_R_8F_E5M2, kHalf = CUDA_R_16BF, kFull = CUDA_R_32F;
constexpr auto kRows = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
constexpr auto kSuccess = CUBLAS_STATUS_SUCCESS, kInvalid = CUBLAS_STATUS_INVALID_VALUE,
               kNotSupported = CUBLAS_STATUS_NOT_SUPPORTED;
constexpr std::size_t kM = 32, kN = 16, kK = 160;

/// The device's compute capability, until the end of the scope.
struct Capability {
  explicit Capability(int number) { setenv("LLMC_SIM_CAPABILITY", std::to_string(number).c_str(), 1); }
  ~Capability() { unsetenv("LLMC_SIM_CAPABILITY"); }
};

/// Products of [kM, kK] by [kK, kN], A stored transposed.
class EightBits : public Products {
 protected:
  static Case case_of(cudaDataType_t result, bool transpose_a = true, bool transpose_b = false, float beta = 0) {
    return {transpose_a, transpose_b, false, false, kE4m3, result, 1, beta};
  }
  /// A new operation with scales of rows.
  void describe_rows(bool fast = false, const void* bias = nullptr) {
    describe_plain(case_of(kHalf), bias);
    set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, kRows);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, kRows);
    scale(rows, cols);
    set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{fast});
  }
  void describe_plain(const Case& of, const void* bias = nullptr) {
    cublasLtMatmulDescDestroy(operation);
    describe(of, bias, kHalf);
  }
  void scale(const float* of_a, const float* of_b) {
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, static_cast<const void*>(of_a));
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, static_cast<const void*>(of_b));
  }
  /// Status of the heuristics, which is that of the product too.
  cublasStatus_t status_of(const Matrix& x, const Matrix& y, const Matrix& z) {
    const int count = choose(x, y, z, z, kWorkspace);
    EXPECT_EQ(count > 0, status == kSuccess);
    if (status != kSuccess) {
      EXPECT_EQ(multiply(case_of(kHalf), x, y, z, z, 0), status);
    }
    return status;
  }
  cublasStatus_t status_of_rows() { return status_of(a, b, d); }

  Matrix a{kK, kM, kK, false, kE4m3, 1}, b{kK, kN, kK, false, kE4m3, 2}, d{kM, kN, kM, false, kHalf, 3};
  Memory<float> rows{std::vector<float>(kM + 4, 1.0f)}, cols{std::vector<float>(kN + 4, 1.0f)};
};

TEST_F(EightBits, TheRulesAcceptAWellFormedProduct) {
  describe_rows();
  EXPECT_EQ(status_of_rows(), kSuccess);
  describe_rows(true);
  EXPECT_EQ(status_of_rows(), kSuccess);
  EXPECT_EQ(status_of(a, b, Matrix(kM, kN, kM, false, kFull, 4)), kSuccess);
  EXPECT_EQ(status_of(a, b, Matrix(kM, kN, kM, false, kE4m3, 4)), kNotSupported);  // not simulated
}

TEST_F(EightBits, OnlyOneGenerationTakesOtherLayoutsThanTn) {
  const Matrix upright_a(kM, kK, kM, false, kE4m3, 1), flat_b(kN, kK, kN, false, kE4m3, 2);
  const Matrix rows_a(kK, kM, kM, true, kE4m3, 1);
  for (const int number : {89, 90, 100, 103, 120, 121}) {
    const Capability capability(number);
    const cublasStatus_t others = number / 10 == 10 ? kSuccess : kNotSupported;
    describe_plain(case_of(kHalf));
    EXPECT_EQ(status_of(a, b, d), kSuccess) << number;
    EXPECT_EQ(status_of(rows_a, b, d), kNotSupported) << number;
    describe_plain(case_of(kHalf, false, false));
    EXPECT_EQ(status_of(upright_a, b, d), others) << number;
    describe_plain(case_of(kHalf, true, true));
    EXPECT_EQ(status_of(a, flat_b, d), others) << number;
    describe_plain(case_of(kHalf, false, true));
    EXPECT_EQ(status_of(upright_a, flat_b, d), others) << number;
    EXPECT_EQ(status_of(Matrix(kM, kK + 8, kM, false, kE4m3, 1), Matrix(kN, kK + 8, kN, false, kE4m3, 2), d),
              kNotSupported)
        << number;  // k
  }
}

TEST_F(EightBits, LengthsAreMultiplesOf16Bytes) {
  describe_rows();
  const Matrix odd_a(kK + 8, kM, kK + 16, false, kE4m3, 1), odd_b(kK + 8, kN, kK + 16, false, kE4m3, 2);
  EXPECT_EQ(status_of(odd_a, odd_b, d), kNotSupported);                                // k
  EXPECT_EQ(status_of(Matrix(kK, kM, kK + 8, false, kE4m3, 1), b, d), kNotSupported);  // of A's columns
  EXPECT_EQ(status_of(a, Matrix(kK, kN, kK + 8, false, kE4m3, 2), d), kNotSupported);  // of B's
  EXPECT_EQ(status_of(a, b, Matrix(kM, kN, kM + 4, false, kHalf, 3)), kNotSupported);  // of D's
  EXPECT_EQ(status_of(a, b, Matrix(kM, kN, kM + 4, false, kFull, 3)), kSuccess);       // 4 * 4 bytes
  const Matrix narrow_a(kK, kM - 4, kK, false, kE4m3, 1);
  EXPECT_EQ(status_of(narrow_a, b, Matrix(kM - 4, kN, kM, false, kHalf, 3)), kNotSupported);  // m
  EXPECT_EQ(status_of(narrow_a, b, Matrix(kM - 4, kN, kM, false, kFull, 3)), kSuccess);
  const Matrix few_b(kK, kN - 3, kK, false, kE4m3, 2);
  EXPECT_EQ(status_of(a, few_b, Matrix(kM, kN - 3, kM, false, kHalf, 3)), kSuccess);  // n
  // At least 16 bytes of alignment.
  EXPECT_EQ(choose(a, b, d, d, kWorkspace, 8), 0);
  EXPECT_EQ(status, kNotSupported);
  EXPECT_EQ(choose(a, b, d, d, kWorkspace, 16), 3);
}

TEST_F(EightBits, OneOperandMayBeE5m2) {
  const Matrix wide_a(kK, kM, kK, false, kE5m2, 1), wide_b(kK, kN, kK, false, kE5m2, 2);
  describe_rows();
  EXPECT_EQ(status_of(wide_a, b, d), kSuccess);
  EXPECT_EQ(status_of(a, wide_b, d), kSuccess);
  EXPECT_EQ(status_of(wide_a, wide_b, d), kNotSupported);
  describe_plain(case_of(kHalf));
  EXPECT_EQ(status_of(a, Matrix(kK, kN, kK, false, kHalf, 2), d), kNotSupported);
}

TEST_F(EightBits, ScalesBelongToMatricesOf8Bits) {
  for (const auto pointer : {CUBLASLT_MATMUL_DESC_C_SCALE_POINTER, CUBLASLT_MATMUL_DESC_D_SCALE_POINTER}) {
    describe_rows();
    set(pointer, static_cast<const float*>(rows));
    EXPECT_EQ(status_of_rows(), kInvalid);
  }
  for (const auto mode : {CUBLASLT_MATMUL_DESC_C_SCALE_MODE, CUBLASLT_MATMUL_DESC_D_SCALE_MODE}) {
    describe_rows();
    set(mode, kRows);
    EXPECT_EQ(status_of_rows(), kInvalid);
  }
  const Matrix half_a(kK, kM, kK, false, kHalf, 1), half_b(kK, kN, kK, false, kHalf, 2);
  describe_plain(case_of(kHalf));
  EXPECT_EQ(status_of(half_a, half_b, d), kSuccess);
  scale(rows, nullptr);
  EXPECT_EQ(status_of(half_a, half_b, d), kInvalid);
}

TEST_F(EightBits, ScalesAreAligned) {
  describe_rows();
  scale(rows + 4, cols + 4);
  EXPECT_EQ(status_of_rows(), kSuccess);
  scale(rows + 1, cols);
  EXPECT_EQ(status_of_rows(), kInvalid);
  scale(rows, cols + 2);
  EXPECT_EQ(status_of_rows(), kInvalid);
}

TEST_F(EightBits, ScalesOfRowsComeInPairs) {
  for (const auto mode : {CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_DESC_B_SCALE_MODE}) {
    describe_rows();
    set(mode, CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F);
    EXPECT_EQ(status_of_rows(), kInvalid);
  }
  describe_rows();
  scale(nullptr, cols);
  EXPECT_EQ(status_of_rows(), kInvalid);
  scale(rows, nullptr);
  EXPECT_EQ(status_of_rows(), kInvalid);
}

TEST_F(EightBits, OnlyOneArchitectureHasScalesOfRows) {
  for (const int number : {89, 90, 100, 120}) {
    const Capability capability(number);
    describe_rows();
    EXPECT_EQ(status_of_rows(), number == 90 ? kSuccess : kNotSupported) << number;
    describe_plain(case_of(kHalf));
    scale(rows, cols);
    EXPECT_EQ(status_of_rows(), kSuccess) << number;
  }
}

/// A trainer may run with an older library than it was built with.
class EightBitProducts : public EightBits {
 protected:
  EightBitProducts() { setenv("LLMC_SIM_CUBLASLT_VERSION", "120800", 1); }
  ~EightBitProducts() override { unsetenv("LLMC_SIM_CUBLASLT_VERSION"); }
};

TEST_F(EightBitProducts, NeedALibraryThatScalesRows) {
  describe_rows();
  EXPECT_EQ(status_of_rows(), kNotSupported);
  Device device(0, 0);
  MathLibrary library(device, nullptr, 0);
  try {
    const Gemm gemm(library, {.name = "gate_up",
                              .m = 32,
                              .n = 32,
                              .k = 32,
                              .transpose_b = true,
                              .pitch_a = 32,
                              .pitch_b = 32,
                              .pitch_d = 32,
                              .operand = DType::e4m3,
                              .scaling = Scaling::rows});
    ADD_FAILURE();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), Exit::toolchain);
    EXPECT_TRUE(test::has_facts(failure.what(), {"cuBLASLt 12.8.0", "gate_up [m 32, n 32, k 32]", "CUDA 12.9"}));
  }
}

TEST_F(EightBits, ScalesOfBlocksAreNotSimulated) {
  for (const auto mode : {CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3, CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0,
                          CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F, CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F}) {
    describe_rows();
    set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, mode);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, mode);
    EXPECT_EQ(status_of_rows(), kNotSupported) << mode;
  }
}

TEST_F(EightBits, OlderDevicesHaveNone) {
  for (const int number : {80, 86}) {
    const Capability capability(number);
    describe_plain(case_of(kHalf));
    EXPECT_EQ(status_of_rows(), kNotSupported) << number;
  }
}

TEST_F(EightBits, ABiasHas16Bits) {
  const Memory<bf16> bias(kM);
  const Matrix full(kM, kN, kM, false, kFull, 3);
  describe_rows(false, bias);
  EXPECT_EQ(status_of(a, b, d), kSuccess);
  EXPECT_EQ(status_of(a, b, full), kSuccess);
  set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, kFull);
  EXPECT_EQ(status_of(a, b, full), kNotSupported);
}

/// Integers up to `most`, of either sign.
std::vector<float> integers(std::size_t count, int most, unsigned seed) {
  std::mt19937 generator(seed);
  std::vector<float> values(count);
  for (float& v : values) v = static_cast<float>(static_cast<int>(generator() % (2u * most + 1)) - most);
  return values;
}

std::vector<float> powers_of_two(std::size_t count, unsigned seed) {
  std::vector<float> values = integers(count, 3, seed);
  for (float& v : values) v = std::exp2(v);
  return values;
}

/// Integers below 2^14 are exact in any order and width of sums.
TEST_F(EightBits, IntegersAreExactInEverySummation) {
  const Matrix x(kK, kM, kK, false, kE4m3, integers(kK * kM, 6, 1)),
      y(kK, kN, kK, false, kE4m3, integers(kK * kN, 6, 2));
  const std::vector<float> of_rows = powers_of_two(kM, 3), of_cols = powers_of_two(kN, 4), bias = integers(kM, 100, 5);
  const Memory<float> scale_x(of_rows), scale_y(of_cols);
  std::vector<bf16> narrow;
  for (float v : bias) narrow.push_back(from_float<bf16>(v));
  const Memory<bf16> device_bias(narrow);
  for (const cudaDataType_t result : {kFull, kHalf})
    for (const bool fast : {false, true})
      for (const bool biased : {false, true})
        for (const float beta : {0.0f, 1.0f}) {
          const Matrix c(kM, kN, kM + 8, false, result, integers(kN * (kM + 8), 64, 6));
          const Matrix z(kM, kN, kM + 8, false, result, 7);
          describe_rows(fast, biased ? static_cast<bf16*>(device_bias) : nullptr);
          scale(scale_x, scale_y);
          ASSERT_EQ(choose(x, y, c, z, kWorkspace), 3);
          for (int algorithm = 0; algorithm < 3; ++algorithm) {
            ASSERT_EQ(multiply(case_of(result, true, false, beta), x, y, c, z, algorithm), kSuccess);
            const std::vector<float> got = z.result();
            for (std::size_t i = 0; i < kM; ++i)
              for (std::size_t j = 0; j < kN; ++j) {
                double sum = 0;
                for (std::size_t k = 0; k < kK; ++k) sum += x.at(k, i) * y.at(k, j);
                const double exact = of_rows[i] * of_cols[j] * sum + beta * c.at(i, j) + (biased ? bias[i] : 0.0f);
                const auto once = static_cast<float>(exact);
                ASSERT_EQ(got[z.index(i, j)], result == kFull ? once : to_float(from_float<bf16>(once)))
                    << i << ", " << j << ", algorithm " << algorithm << (fast ? ", fast" : "") << ", bias " << biased
                    << ", beta " << beta;
              }
          }
        }
}

TEST_F(EightBits, AScaleOfATensorIsOneNumber) {
  describe_plain(case_of(kHalf));
  const Matrix plain(kM, kN, kM, false, kFull, 3), scaled(kM, kN, kM, false, kFull, 3);
  ASSERT_EQ(choose(a, b, plain, plain, kWorkspace), 3);
  multiply(case_of(kFull), a, b, plain, plain, 0);
  std::vector<float> expected = plain.result();
  for (float& v : expected) v *= 2;
  const Memory<float> eighth(std::vector<float>{0.125f}), sixteen(std::vector<float>{16});
  scale(eighth, sixteen);
  multiply(case_of(kFull), a, b, scaled, scaled, 0);
  EXPECT_EQ(scaled.result(), expected);
}

/// Rows of normal numbers, each of its own size, as codes and scales.
struct Quantised {
  std::vector<float> exact, codes, scales;
  Quantised(std::size_t rows, std::size_t cols, unsigned seed) : exact(normal(rows * cols, seed)) {
    for (std::size_t r = 0; r < rows; ++r) {
      float largest = 0;
      for (std::size_t k = 0; k < cols; ++k) {
        float& v = exact[r * cols + k];
        v *= std::exp2(static_cast<float>(r % 21) - 10) * 1.3f;
        largest = std::max(largest, std::abs(v));
      }
      scales.push_back(e4m3_scale(largest));
      for (std::size_t k = 0; k < cols; ++k) codes.push_back(exact[r * cols + k] / scales[r]);
    }
  }
};

TEST_F(EightBits, NormalNumbersKeep27Decibels) {
  constexpr std::size_t kLong = 2048;
  const Quantised x(kM, kLong, 1), y(kN, kLong, 2);
  const Matrix codes_x(kLong, kM, kLong, false, kE4m3, x.codes), codes_y(kLong, kN, kLong, false, kE4m3, y.codes);
  const Matrix z(kM, kN, kM, false, kFull, 3);
  const Memory<float> scale_x(x.scales), scale_y(y.scales);
  std::vector<std::vector<float>> results;
  for (const bool fast : {false, true}) {
    describe_rows(fast);
    scale(scale_x, scale_y);
    ASSERT_EQ(choose(codes_x, codes_y, z, z, kWorkspace), 3);
    for (int algorithm = 0; algorithm < 3; ++algorithm) {
      multiply(case_of(kFull), codes_x, codes_y, z, z, algorithm);
      results.push_back(z.result());
      double noise = 0, signal = 0;  // of elements in units of their rows
      for (std::size_t i = 0; i < kM; ++i)
        for (std::size_t j = 0; j < kN; ++j) {
          double sum = 0;
          for (std::size_t k = 0; k < kLong; ++k)
            sum += static_cast<double>(x.exact[i * kLong + k]) * y.exact[j * kLong + k];
          const double unit = static_cast<double>(x.scales[i]) * y.scales[j];
          noise += std::pow((results.back()[z.index(i, j)] - sum) / unit, 2);
          signal += std::pow(sum / unit, 2);
        }
      const double decibels = 10 * std::log10(signal / noise);
      EXPECT_GE(decibels, 27) << algorithm << (fast ? ", fast" : "");  // seen: 28.1 in all six
    }
  }
  // A narrow sum loses bits, and an exact one does not.
  for (int algorithm = 0; algorithm < 3; ++algorithm) EXPECT_NE(results[algorithm], results[3 + algorithm]);
}

TEST(EightBitNumbers, AreThoseOfTheirCodes) {
  const auto check = [](unsigned code, float number, float known) {
    EXPECT_TRUE(number == known || (std::isnan(number) && std::isnan(known))) << code;
    EXPECT_EQ(std::signbit(number) && !std::isnan(number), code >= 0x80 && !std::isnan(number)) << code;
  };
  for (unsigned code = 0; code < 256; ++code) {
    const auto bits = static_cast<unsigned char>(code);
    check(code, sim::e4m3_number(bits), to_float(e4m3{bits}));
    check(code, sim::e5m2_number(bits), to_float(e5m2{bits}));
  }
}

/// The pairs of codes that `kernel` makes of numbers at the borders, next to 1.
template <class Code, class Kernel>
void check_pairs(Kernel kernel) {
  std::vector<float> pairs;
  std::vector<unsigned short> expected;
  const unsigned one = from_float<Code>(1.0f).bits;
  for_numbers_of<Code>([&](std::uint32_t bits) {
    const auto v = __builtin_bit_cast(float, bits);
    pairs.insert(pairs.end(), {v, 1.0f, 1.0f, v});
    expected.push_back(static_cast<unsigned short>(one << 8 | known_code<Code>(bits)));
    expected.push_back(static_cast<unsigned short>(known_code<Code>(bits) << 8 | one));
  });
  TestStream stream;
  const Memory<float> in(pairs);
  const Memory<unsigned short> out(expected.size());
  launch(stream, Grid{1, 32}, kernel, static_cast<const float*>(in), static_cast<unsigned short*>(out),
         static_cast<int>(expected.size()));
  EXPECT_EQ(out.host(), expected);
}

TEST(EightBitNumbers, AreRoundedAsByCuda) {
  check_pairs<e4m3>(e4m3_pairs);
  check_pairs<e5m2>(e5m2_pairs);
}

TEST_F(EightBits, RaceOfItsScalesWithOtherStreams) {
  describe_rows(true);
  ASSERT_EQ(choose(a, b, d, d, kWorkspace), 3);
  cudaDeviceSynchronize();
  for (const float* scales : {static_cast<float*>(rows), static_cast<float*>(cols)})
    EXPECT_REPORT(
        {
          TestStream other;
          cudaMemsetAsync(const_cast<float*>(scales), 0, 4, other.handle);
          multiply(case_of(kHalf), a, b, d, d, 0);
          cudaDeviceSynchronize();
        },
        "race: (product \\[32, 16, 160\\] e4m3 -> bf16 scaled by rows with fast accumulation.*; memset .* wrote "
        "them|memset .*; product .* e4m3 -> bf16 scaled by rows with fast accumulation.* read them)");
}

}  // namespace
}  // namespace llmc
