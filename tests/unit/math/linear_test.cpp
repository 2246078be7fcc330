// Forward products and gradients of inputs in tiles against sums in double, for any number of threads; and the model of
// the tiles against the instructions where this machine has them.
#include "math/tiles/linear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "device/cpu/arch.h"

namespace llmc {

/// runtime/math/tiles/linear.cpp by the model.
void linear_product_soft(const GemmShape& shape, const void* a, const void* b, const void* bias, const void* c, void* d,
                         int part, int parts, void* workspace);

namespace {

/// A matrix of either type, each number exact in it.
struct Matrix {
  DType type = DType::bf16;
  std::vector<std::uint32_t> words;  // starts on a cache line, as the arena's matrices do

  Matrix(std::int64_t count, DType dtype, std::mt19937& engine) : type(dtype), words(count + 16) {
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < count; ++i) {
      const float value = normal(engine);
      std::uint32_t word;
      std::memcpy(&word, &value, 4);
      if (type == DType::f32)
        std::memcpy(data() + 4 * i, &word, 4);
      else
        std::memcpy(data() + 2 * i, reinterpret_cast<const std::byte*>(&word) + 2, 2);
    }
  }
  Matrix(const Matrix& other) : type(other.type), words(other.words.size()) {
    std::memcpy(data(), other.data(), bytes());
  }
  std::size_t bytes() const { return 4 * (words.size() - 16); }
  std::byte* data() const {
    const auto address = reinterpret_cast<std::uintptr_t>(words.data());
    return const_cast<std::byte*>(reinterpret_cast<const std::byte*>(words.data())) + (64 - address % 64) % 64;
  }
  float at(std::int64_t i) const {
    std::uint32_t word = 0;
    if (type == DType::f32)
      std::memcpy(&word, data() + 4 * i, 4);
    else
      std::memcpy(reinterpret_cast<std::byte*>(&word) + 2, data() + 2 * i, 2);
    float value;
    std::memcpy(&value, &word, 4);
    return value;
  }
};

struct Product {
  GemmShape shape;
  Matrix a, b, bias, c, before;

  explicit Product(const GemmShape& s, std::mt19937 engine = std::mt19937(1))
      : shape(s),
        a(s.m * s.pitch_a, DType::bf16, engine),
        b((s.transpose_b ? s.n : s.k) * s.pitch_b, DType::bf16, engine),
        bias(s.n, s.result, engine),
        c(s.m * s.pitch_d, s.result, engine),
        before(s.m * s.pitch_d, s.result, engine) {}

  template <class Kernel>
  Matrix run(Kernel kernel, int parts) const {
    Matrix d = before;
    std::vector<std::byte> workspace(linear_product_bytes(shape) + 64);
    void* aligned = workspace.data() + (64 - reinterpret_cast<std::uintptr_t>(workspace.data()) % 64) % 64;
    for (int part = 0; part < parts; ++part)
      kernel(shape, a.data(), b.data(), shape.bias ? bias.data() : nullptr, shape.residual ? c.data() : nullptr,
             d.data(), part, parts, aligned);
    return d;
  }
  bool same(const Matrix& x, const Matrix& y) const { return std::memcmp(x.data(), y.data(), x.bytes()) == 0; }
};

GemmShape shape(std::int64_t m, std::int64_t n, std::int64_t k, bool transposed, DType result) {
  return {.m = m,
          .n = n,
          .k = k,
          .transpose_b = transposed,
          .pitch_a = k + 8,
          .pitch_b = (transposed ? k : n) + 24,
          .pitch_d = n + 8,
          .operand = DType::bf16,
          .result = result};
}

/// Each way through the kernel: both forms of B, one chunk of the sum and several, all columns at once and in panels,
/// what is added, and a D that goes past the caches.
std::vector<GemmShape> shapes() {
  GemmShape residual = shape(64, 96, 544, true, DType::f32), both = shape(96, 64, 64, false, DType::bf16);
  GemmShape streamed = shape(1184, 448, 32, true, DType::bf16), wide = shape(1184, 224, 32, false, DType::f32);
  residual.residual = true;
  both.bias = both.residual = true;
  streamed.pitch_d = 448, wide.pitch_d = 224;
  wide.residual = true;
  return {shape(96, 128, 96, true, DType::bf16),
          shape(64, 64, 800, false, DType::bf16),
          residual,
          both,
          shape(32, 1088, 512, true, DType::bf16),
          streamed,
          wide};
}

TEST(Linear, MatchesSumsInDouble) {
  for (const GemmShape& s : shapes()) {
    const Product p(s);
    ASSERT_TRUE(is_linear_product(s));
    const Matrix d = p.run(linear_product_soft, 1);
    for (std::int64_t i = 0; i < s.m; ++i) {
      for (std::int64_t j = 0; j < s.n; ++j) {
        const double added = (s.bias ? p.bias.at(j) : 0.0) + (s.residual ? p.c.at(i * s.pitch_d + j) : 0.0);
        double sum = added, magnitude = std::abs(added);
        for (std::int64_t l = 0; l < s.k; ++l) {
          const std::int64_t place = s.transpose_b ? j * s.pitch_b + l : l * s.pitch_b + j;
          const double term = double(p.a.at(i * s.pitch_a + l)) * p.b.at(place);
          sum += term, magnitude += std::abs(term);
        }
        // As in gemm_test.cpp: 4 times the square root of the number of roundings; and one more to bf16.
        const double rounding = s.result == DType::bf16 ? std::ldexp(std::abs(sum), -8) : 0;
        ASSERT_NEAR(d.at(i * s.pitch_d + j), sum, 4 * std::sqrt(double(s.k)) * std::ldexp(magnitude, -24) + rounding)
            << s.m << " x " << s.n << " x " << s.k << ": " << i << ", " << j;
      }
      for (std::int64_t j = s.n; j < s.pitch_d; ++j)
        ASSERT_EQ(d.at(i * s.pitch_d + j), p.before.at(i * s.pitch_d + j)) << "padding was written";
    }
  }
}

TEST(Linear, AnyNumberOfThreadsGivesTheSameBits) {
  for (const GemmShape& s : shapes()) {
    const Product p(s);
    const Matrix one = p.run(linear_product_soft, 1);
    for (const int parts : {2, 3, 4, 7, 12}) EXPECT_TRUE(p.same(p.run(linear_product_soft, parts), one)) << parts;
  }
}

TEST(Linear, TheModelHasTheInstructionsBits) {
  if (!cpu_supports("sapphirerapids")) {
    std::printf("this machine has no tiles: the model alone was tested\n");
    return;
  }
  require_tiles();
  for (const GemmShape& s : shapes()) {
    const Product p(s);
    EXPECT_TRUE(p.same(p.run(linear_product, 2), p.run(linear_product_soft, 1)));
  }
}

TEST(Linear, LeavesOtherProductsAlone) {
  const GemmShape good = shapes().front();
  const auto changed = [&](auto change) {
    GemmShape s = good;
    change(s);
    return is_linear_product(s);
  };
  EXPECT_FALSE(changed([](GemmShape& s) { s.m = 112; }));
  EXPECT_FALSE(changed([](GemmShape& s) { s.n = 72; }));
  EXPECT_FALSE(changed([](GemmShape& s) { s.k = 80; }));
  EXPECT_FALSE(changed([](GemmShape& s) { s.transpose_a = true; }));
  EXPECT_FALSE(changed([](GemmShape& s) { s.accumulates = true; }));
  EXPECT_FALSE(changed([](GemmShape& s) { s.operand = DType::f32; }));
  EXPECT_FALSE(changed([](GemmShape& s) { s.pitch_a = 97; }));
}

}  // namespace
}  // namespace llmc
