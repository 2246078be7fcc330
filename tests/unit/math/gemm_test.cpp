// Compares Gemm with sums in double, for every combination of transposes, types, pitches, bias, residual and
// accumulation.
#include "math/gemm.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>

#include <cmath>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <ostream>
#include <random>
#include <vector>

#include "../facts.h"
#include "device/cpu/arch.h"
#include "error.h"
#include "math/onednn/support.h"
#include "math/onednn/widened.h"
#include "math/tiles/fits.h"
#include "tolerance.h"

namespace llmc {
namespace {

float widen(std::uint16_t bits) {
  const std::uint32_t word = static_cast<std::uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &word, 4);
  return value;
}

std::uint16_t narrow(float value) {
  std::uint32_t word;
  std::memcpy(&word, &value, 4);
  return static_cast<std::uint16_t>((word + 0x7fff + ((word >> 16) & 1)) >> 16);
}

/// Elements in fp32 or bf16, read and written as float.
struct Buffer {
  DType dtype;
  std::vector<std::byte> bytes;

  Buffer(DType type, std::size_t count) : dtype(type), bytes(count * (type == DType::f32 ? 4 : 2)) {}
  float get(std::size_t i) const {
    float value;
    std::uint16_t bits;
    if (dtype == DType::f32) return std::memcpy(&value, bytes.data() + 4 * i, 4), value;
    return std::memcpy(&bits, bytes.data() + 2 * i, 2), widen(bits);
  }
  void set(std::size_t i, float value) {
    const std::uint16_t bits = narrow(value);
    if (dtype == DType::f32)
      std::memcpy(bytes.data() + 4 * i, &value, 4);
    else
      std::memcpy(bytes.data() + 2 * i, &bits, 2);
  }
};

Buffer random(DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t pitch, unsigned seed) {
  Buffer buffer(dtype, rows * pitch);
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  // Padding holds a number that would change every sum that reads it.
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < pitch; ++c) buffer.set(r * pitch + c, c < cols ? uniform(engine) : 1000.0f);
  return buffer;
}

struct Case {
  std::int64_t m, n, k;
  DType operand, result;
  float alpha = 1, beta = 1;
};

/// For GoogleTest, which would list a case by its bytes.
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.m << " x " << c.n << " x " << c.k << " " << name_of(c.operand) << " -> " << name_of(c.result) << ", alpha "
       << c.alpha << ", beta " << c.beta;
}

class GemmTest : public testing::TestWithParam<Case> {};

enum class By { library, tiles, widening };

void check(MathLibrary& library, Device& device, const Case& size, bool ta, bool tb, bool bias, bool residual,
           bool accumulates, By by) {
  GemmShape shape;
  shape.m = size.m, shape.n = size.n, shape.k = size.k;
  shape.operand = size.operand, shape.result = size.result;
  shape.alpha = size.alpha, shape.beta = size.beta;
  shape.transpose_a = ta, shape.transpose_b = tb;
  shape.bias = bias, shape.residual = residual, shape.accumulates = accumulates;
  const auto padded = [](std::int64_t cols) { return (cols + 7) / 8 * 8 + 8; };
  shape.pitch_a = padded(ta ? size.m : size.k);
  shape.pitch_b = padded(tb ? size.k : size.n);
  shape.pitch_d = padded(size.n);
  const Buffer a = random(size.operand, ta ? size.k : size.m, ta ? size.m : size.k, shape.pitch_a, 1);
  const Buffer b = random(size.operand, tb ? size.n : size.k, tb ? size.k : size.n, shape.pitch_b, 2);
  const Buffer offset = random(size.result, 1, size.n, size.n, 3);
  const Buffer c = random(size.result, size.m, size.n, shape.pitch_d, 4);
  shape.tiles = by == By::tiles;
  if (shape.tiles && !fits_tiles(shape)) {
    EXPECT_THROW(Gemm(library, shape), Failure);
    return;
  }
  if (shape.tiles && !cpu_has_tiles()) return;
  if (by != By::tiles && bias && (size.alpha != 1 || size.beta != 1)) {
    EXPECT_THROW(Gemm(library, shape), Failure) << "oneDNN 2 scales a bias too";
    return;
  }
  const Gemm gemm(library, shape);
  std::vector<float> workspace(by == By::widening ? widened_workspace() / sizeof(float) : 0);
  for (const bool accumulate : {false, true}) {
    if (accumulate && !accumulates) continue;
    const Buffer before = random(size.result, size.m, size.n, shape.pitch_d, 5);
    Buffer d = before;
    const GemmOperands operands{
        a.bytes.data(), b.bytes.data(), bias ? offset.bytes.data() : nullptr, residual ? c.bytes.data() : nullptr,
        d.bytes.data(), accumulate};
    if (by == By::widening)
      ASSERT_TRUE(widened_product(shape, operands, 2, workspace.data()));
    else
      gemm(device.stream(), operands);
    for (std::int64_t i = 0; i < size.m; ++i) {
      for (std::int64_t j = 0; j < size.n; ++j) {
        Terms terms;
        for (std::int64_t l = 0; l < size.k; ++l)
          terms.multiply(a.get(ta ? l * shape.pitch_a + i : i * shape.pitch_a + l),
                         b.get(tb ? j * shape.pitch_b + l : l * shape.pitch_b + j));
        terms.scale(size.alpha);
        if (bias) terms.add(offset.get(j));
        if (residual) terms.add(size.beta * c.get(i * shape.pitch_d + j));
        if (accumulate) terms.add(size.beta * before.get(i * shape.pitch_d + j));
        ASSERT_NEAR(d.get(i * shape.pitch_d + j), terms.sum, terms.tolerance(shape))
            << "at " << i << ", " << j << " ta " << ta << " tb " << tb << " bias " << bias << " residual " << residual
            << " accumulate " << accumulate;
      }
      for (std::int64_t j = size.n; j < shape.pitch_d; ++j)
        ASSERT_EQ(d.get(i * shape.pitch_d + j), before.get(i * shape.pitch_d + j)) << "padding was written";
    }
  }
}

TEST_P(GemmTest, MatchesSumsInDouble) {
  Device device(0, 2);
  MathLibrary library(device, nullptr, 0);
  for (int flags = 0; flags < 32; ++flags)
    for (const By by : {By::library, By::widening}) {
      if (by == By::widening && GetParam().operand != DType::bf16) continue;
      check(library, device, GetParam(), flags & 1, flags & 2, flags & 4, flags & 8, flags & 16, by);
    }
}

TEST_P(GemmTest, InTilesMatchesSumsInDouble) {
  Device device(0, 2);
  MathLibrary library(device, nullptr, 0);
  for (int flags = 0; flags < 32; ++flags)
    check(library, device, GetParam(), flags & 1, flags & 2, flags & 4, flags & 8, flags & 16, By::tiles);
  if (!cpu_has_tiles()) GTEST_SKIP() << "this processor has no AMX tiles: what they cannot multiply was refused";
}

constexpr DType f32 = DType::f32, bf16 = DType::bf16;
INSTANTIATE_TEST_SUITE_P(
    Sizes, GemmTest,
    testing::Values(Case{128, 96, 544, bf16, f32}, Case{64, 96, 160, f32, f32}, Case{1, 1, 1, f32, f32},
                    Case{1, 1, 1, bf16, bf16}, Case{7, 5, 3, f32, f32}, Case{7, 5, 3, bf16, f32},
                    Case{33, 65, 129, f32, f32}, Case{33, 65, 129, bf16, bf16}, Case{33, 65, 129, bf16, f32},
                    Case{128, 96, 256, bf16, bf16}, Case{97, 31, 511, bf16, f32}, Case{9, 17, 4500, bf16, bf16},
                    Case{64, 48, 80, f32, f32}, Case{64, 96, 160, f32, f32, -4.775f, 3.4445f},
                    Case{33, 65, 129, f32, f32, 2, 0}, Case{64, 96, 160, bf16, bf16, 2.0315f, -4.775f},
                    Case{33, 65, 129, bf16, f32, 0.5f, 1}, Case{33, 65, 129, f32, f32, 1, -2}));

/// Blocks of the result, also partial ones at its last row, its last column and both.
TEST(Gemm, BlocksOfAPaddedResultMatchSumsInDouble) {
  Device device(0, 2);
  MathLibrary library(device, nullptr, 0);
  for (const DType dtype : {f32, bf16}) {
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        check(library, device, {1003, 3001, 5, dtype, dtype}, ta, tb, true, true, true, By::library);
        if (dtype == bf16)
          check(library, device, {1003, 3001, 5, dtype, dtype}, ta, tb, true, true, true, By::widening);
      }
  }
}

/// Products and last blocks of one row or column, which oneDNN 3.7 reads and writes without their pitches.
TEST(Gemm, SingleRowsAndColumnsKeepTheirPitch) {
  Device device(0, 2);
  MathLibrary library(device, nullptr, 0);
  for (const DType dtype : {f32, bf16})
    for (const auto& [m, n] : {std::pair{1, 5}, {5, 1}, {1, 1}, {513, 8}, {8, 1025}})
      for (int flags = 0; flags < 16; ++flags)
        check(library, device, {m, n, 9, dtype, dtype}, flags & 1, flags & 2, flags & 4, false, flags & 8, By::library);
}

std::size_t peak_resident() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) << 10;
}

std::size_t allocated_by(MathLibrary& library, const GemmShape& shape) {
  const auto allocated = [] { return mallinfo2().uordblks + mallinfo2().hblkhd; };
  const std::size_t before = allocated();
  const Gemm gemm(library, shape);
  return allocated() - before;
}

/// For a wide result with padded rows oneDNN would allocate copies: 20 MiB here, where blocks take 7.
TEST(Gemm, BlocksOfAPaddedResultTakeLittleMemory) {
  Device device(0, 2);
  MathLibrary library(device, nullptr, 0);
  const GemmShape shape{
      .m = 1024, .n = 16385, .k = 256, .transpose_b = true, .pitch_a = 256, .pitch_b = 256, .pitch_d = 16388};
  const Buffer a(f32, 1024 * 256), b(f32, 16385 * 256);
  Buffer d(f32, 1024 * 16388);
  const std::size_t before = peak_resident();
  const Gemm gemm(library, shape);
  gemm(device.stream(), {a.bytes.data(), b.bytes.data(), nullptr, nullptr, d.bytes.data(), false});
  // Below AVX-512 oneDNN allocates its copies in each call, and the heap keeps 28 to 40 MiB of them, whatever the
  // shape.
  const std::size_t most = __builtin_cpu_supports("avx512f") ? 12 : 44;
  EXPECT_LE(peak_resident() - before, most << 20);
}

/// oneDNN would split the sum over all threads, each with a result of 16 MiB.
TEST(Gemm, LongSumsOnManyThreadsTakeLittleMemory) {
  Device device(0, 16);
  MathLibrary library(device, nullptr, 0);
  EXPECT_LE(allocated_by(library, {.m = 16384,
                                   .n = 256,
                                   .k = 2048,
                                   .transpose_a = true,
                                   .pitch_a = 16384,
                                   .pitch_b = 256,
                                   .pitch_d = 256,
                                   .accumulates = true}),
            std::size_t{17} << 20);
}

TEST(Gemm, EqualCallsGiveEqualBits) {
  for (const DType operand : {f32, bf16}) {
    Device device(0, 2);
    MathLibrary library(device, nullptr, 0);
    // A weight gradient: a long sum, which a library may split between threads.
    GemmShape shape{.m = 72, .n = 40, .k = 2048, .transpose_a = true, .pitch_a = 72, .pitch_b = 40, .pitch_d = 40};
    shape.operand = operand;
    const Buffer a = random(operand, 2048, 72, 72, 1), b = random(operand, 2048, 40, 40, 2);
    const Gemm gemm(library, shape);
    const Gemm again(library, shape);
    Buffer first(f32, 72 * 40), second(f32, 72 * 40);
    gemm(device.stream(), {a.bytes.data(), b.bytes.data(), nullptr, nullptr, first.bytes.data(), false});
    for (int call = 0; call < 20; ++call) {
      (call % 2 ? gemm : again)(device.stream(),
                                {a.bytes.data(), b.bytes.data(), nullptr, nullptr, second.bytes.data(), false});
      ASSERT_EQ(first.bytes, second.bytes);
    }
  }
}

/// Sets what ONEDNN_DEFAULT_FPMATH_MODE=BF16 sets. oneDNN rounds operands for it only on some processors, but always
/// prints the mode of a primitive that has one.
TEST(Gemm, OperandsInFp32AreNotRoundedByDefaultsOfOneDnn) {
  dnnl::set_default_fpmath_mode(dnnl::fpmath_mode::bf16);
  dnnl::set_verbose(1);
  testing::internal::CaptureStdout();
  {
    Device device(0, 1);
    MathLibrary library(device, nullptr, 0);
    const Gemm gemm(library, {.m = 16, .n = 16, .k = 16, .pitch_a = 16, .pitch_b = 16, .pitch_d = 16});
    const Buffer a = random(f32, 16, 16, 16, 1);
    Buffer d(f32, 16 * 16);
    gemm(device.stream(), {a.bytes.data(), a.bytes.data(), nullptr, nullptr, d.bytes.data(), false});
  }
  const std::string printed = testing::internal::GetCapturedStdout();
  dnnl::set_verbose(0);
  dnnl::set_default_fpmath_mode(dnnl::fpmath_mode::strict);
  const std::size_t call = printed.find(",matmul,");  // after the header, which names the columns
  ASSERT_NE(call, std::string::npos) << printed;
  EXPECT_EQ(printed.find("fpmath", call), std::string::npos) << printed;
}

TEST(Gemm, CallsLeaveNothingAllocated) {
  Device device(0, 2);
  MathLibrary library(device, nullptr, 0);
  GemmShape shape{.m = 256, .n = 256, .k = 256, .pitch_a = 256, .pitch_b = 256, .pitch_d = 256};
  shape.residual = shape.accumulates = true;
  const Gemm gemm(library, shape);
  const Buffer a = random(f32, 256, 256, 256, 1);
  Buffer d(f32, 256 * 256);
  const auto call = [&](bool accumulate) {
    gemm(device.stream(), {a.bytes.data(), a.bytes.data(), nullptr, a.bytes.data(), d.bytes.data(), accumulate});
  };
  call(false), call(true);
  const std::size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
  // A block that a call loses has 32 bytes or more. Below AVX-512 oneDNN allocates in each call, and malloc counts
  // blocks in a thread's cache as allocated: at most 7 of each size, of which there is a handful.
  constexpr std::size_t kCalls = 500, kCached = 8 << 10;
  static_assert(kCached < 32 * kCalls);
  for (std::size_t i = 0; i < kCalls; ++i) call(i % 2);
  EXPECT_LE(mallinfo2().uordblks + mallinfo2().hblkhd, before + kCached);
}

/// Muon's products: A = X X^T, B = c A A + b A, X' = B X + a X, where an operand is read twice.
TEST(Gemm, OneBufferIsBothOperandsAndTheAddend) {
  Device device(0, 2);
  MathLibrary library(device, nullptr, 0);
  constexpr std::int64_t kRows = 40, kCols = 72;
  for (const DType dtype : {f32, bf16}) {
    const Buffer x = random(dtype, kRows, kCols, kCols, 1);
    Buffer gram(dtype, kRows * kRows), polynomial(dtype, kRows * kRows), next(dtype, kRows * kCols);
    const Gemm first(library, {.m = kRows,
                               .n = kRows,
                               .k = kCols,
                               .transpose_b = true,
                               .pitch_a = kCols,
                               .pitch_b = kCols,
                               .pitch_d = kRows,
                               .operand = dtype,
                               .result = dtype});
    const GemmShape of_squares{.m = kRows,
                               .n = kRows,
                               .k = kRows,
                               .pitch_a = kRows,
                               .pitch_b = kRows,
                               .pitch_d = kRows,
                               .operand = dtype,
                               .result = dtype,
                               .alpha = 2.0315f,
                               .beta = -4.775f,
                               .residual = true};
    const GemmShape of_x{.m = kRows,
                         .n = kCols,
                         .k = kRows,
                         .pitch_a = kRows,
                         .pitch_b = kCols,
                         .pitch_d = kCols,
                         .operand = dtype,
                         .result = dtype,
                         .beta = 3.4445f,
                         .residual = true};
    first(device.stream(), {x.bytes.data(), x.bytes.data(), nullptr, nullptr, gram.bytes.data(), false});
    Gemm(library, of_squares)(device.stream(), {gram.bytes.data(), gram.bytes.data(), nullptr, gram.bytes.data(),
                                                polynomial.bytes.data(), false});
    Gemm(library, of_x)(device.stream(),
                        {polynomial.bytes.data(), x.bytes.data(), nullptr, x.bytes.data(), next.bytes.data(), false});
    for (std::int64_t i = 0; i < kRows; ++i) {
      for (std::int64_t j = 0; j < kRows; ++j) {
        Terms square, both;
        for (std::int64_t l = 0; l < kCols; ++l) square.multiply(x.get(i * kCols + l), x.get(j * kCols + l));
        ASSERT_NEAR(gram.get(i * kRows + j), square.sum, square.tolerance(of_squares));
        for (std::int64_t l = 0; l < kRows; ++l) both.multiply(gram.get(i * kRows + l), gram.get(l * kRows + j));
        both.scale(of_squares.alpha);
        both.add(of_squares.beta * gram.get(i * kRows + j));
        ASSERT_NEAR(polynomial.get(i * kRows + j), both.sum, both.tolerance(of_squares));
      }
      for (std::int64_t j = 0; j < kCols; ++j) {
        Terms terms;
        for (std::int64_t l = 0; l < kRows; ++l) terms.multiply(polynomial.get(i * kRows + l), x.get(l * kCols + j));
        terms.add(of_x.beta * x.get(i * kCols + j));
        ASSERT_NEAR(next.get(i * kCols + j), terms.sum, terms.tolerance(of_x));
      }
    }
  }
}

/// oneDNN 2 multiplies a bias by alpha too.
TEST(Gemm, OneDnnRefusesABiasWithAlphaOrBeta) {
  Device device(0, 1);
  MathLibrary library(device, nullptr, 0);
  GemmShape shape{.name = "q", .m = 32, .n = 32, .k = 32, .pitch_a = 32, .pitch_b = 32, .pitch_d = 32, .bias = true};
  EXPECT_NO_THROW(Gemm(library, shape));
  shape.alpha = 2;
  try {
    const Gemm gemm(library, shape);
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), Exit::toolchain);
    EXPECT_TRUE(test::has_facts(failure.what(),
                                {"alpha or beta", "bias", "q [m 32, n 32, k 32]", "fp32 -> fp32", "alpha 2.000000"}));
  }
  shape.alpha = 1, shape.beta = 2;
  EXPECT_THROW(Gemm(library, shape), Failure);
}

/// A trainer for the CPU multiplies bf16 numbers that equal codes times scales.
TEST(Gemm, ScaledProductsAreRefused) {
  Device device(0, 1);
  MathLibrary library(device, nullptr, 0);
  try {
    const Gemm gemm(library, {.name = "q",
                              .m = 32,
                              .n = 32,
                              .k = 32,
                              .transpose_b = true,
                              .pitch_a = 32,
                              .pitch_b = 32,
                              .pitch_d = 32,
                              .operand = DType::bf16,
                              .scaling = Scaling::rows});
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), Exit::internal);
    EXPECT_NE(std::string(failure.what()).find("q [m 32, n 32, k 32]"), std::string::npos) << failure.what();
  }
}

TEST(Gemm, AddingWithoutHavingSaidSoIsAnInternalError) {
  Device device(0, 1);
  MathLibrary library(device, nullptr, 0);
  const Gemm gemm(library, {.m = 4, .n = 4, .k = 4, .pitch_a = 4, .pitch_b = 4, .pitch_d = 4});
  float a[16] = {}, d[16] = {};
  EXPECT_THROW(gemm(device.stream(), {a, a, nullptr, nullptr, d, true}), Failure);
}

}  // namespace
}  // namespace llmc
