// Compares forward GEMMs and input gradients in tiles with sums in double, for any number of threads, and the tiles'
// software model with the instructions if this machine has them.
#include "math/tiles/linear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "device/cpu/arch.h"
#include "tolerance.h"

namespace llmc {

/// runtime/math/tiles/linear.cpp compiled with the software model.
void linear_product_soft(const GemmShape& shape, const void* a, const void* b, const void* bias, const void* c, void* d,
                         int part, int parts, void* workspace);

namespace {

/// A matrix of either type whose numbers are exact in it.
struct Matrix {
  DType type = DType::bf16;
  std::vector<std::uint32_t> words;  // aligned to a cache line, like the arena's matrices

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
        a(s.m * s.pitch_a, s.a().dtype, engine),
        b((s.transpose_b ? s.n : s.k) * s.pitch_b, s.b().dtype, engine),
        bias(s.n, s.d().dtype, engine),
        c(s.m * s.pitch_d, s.c().dtype, engine),
        before(s.m * s.pitch_d, s.d().dtype, engine) {}

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

  /// Terms of D [i, j].
  Terms terms(std::int64_t i, std::int64_t j) const {
    Terms terms;
    for (std::int64_t l = 0; l < shape.k; ++l)
      terms.multiply(a.at(i * shape.pitch_a + l),
                     b.at(shape.transpose_b ? j * shape.pitch_b + l : l * shape.pitch_b + j));
    terms.scale(shape.alpha);
    if (shape.bias) terms.add(bias.at(j));
    if (shape.residual) terms.add(shape.beta * c.at(i * shape.pitch_d + j));
    return terms;
  }
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
          .result = result,
          .tiles = true};
}

GemmShape in_fp32(GemmShape shape) {
  shape.operand = shape.result = DType::f32;
  return shape;
}

/// Covers every path through the kernel: both operand types, both forms of B, one or several chunks of the sum, all
/// columns at once or in panels, addends, alpha and beta, and streaming stores to D.
std::vector<GemmShape> shapes() {
  GemmShape residual = shape(64, 96, 544, true, DType::f32), both = shape(96, 64, 64, false, DType::bf16);
  GemmShape streamed = shape(1184, 448, 32, true, DType::bf16), wide = shape(1184, 224, 32, false, DType::f32);
  residual.residual = true;
  both.bias = both.residual = true;
  both.alpha = -4.775f, both.beta = 2.0315f;
  streamed.pitch_d = 448, wide.pitch_d = 224;
  wide.residual = true;
  std::vector<GemmShape> all = {shape(96, 128, 96, true, DType::bf16),
                                shape(64, 64, 800, false, DType::bf16),
                                residual,
                                both,
                                shape(32, 1088, 512, true, DType::bf16),
                                streamed,
                                wide};
  for (std::size_t i = 0, count = all.size(); i < count; ++i) all.push_back(in_fp32(all[i]));
  all.back().pitch_a += 1;  // no pairs for bf16, and fp32 needs none
  return all;
}

TEST(Linear, MatchesSumsInDouble) {
  for (const GemmShape& s : shapes()) {
    const Product p(s);
    ASSERT_TRUE(is_linear_product(s));
    const Matrix d = p.run(linear_product_soft, 1);
    for (std::int64_t i = 0; i < s.m; ++i) {
      for (std::int64_t j = 0; j < s.n; ++j) {
        const Terms terms = p.terms(i, j);
        ASSERT_NEAR(d.at(i * s.pitch_d + j), terms.sum, terms.tolerance(s))
            << s.m << " x " << s.n << " x " << s.k << ": " << i << ", " << j;
      }
      for (std::int64_t j = s.n; j < s.pitch_d; ++j)
        ASSERT_EQ(d.at(i * s.pitch_d + j), p.before.at(i * s.pitch_d + j)) << "padding was written";
    }
  }
}

/// Norm of the kernel's error relative to the norm of the result.
double error(const Product& product, const std::function<double(std::int64_t, std::int64_t)>& exact) {
  const Matrix d = product.run(linear_product_soft, 1);
  double off = 0, size = 0;
  for (std::int64_t i = 0; i < product.shape.m; ++i)
    for (std::int64_t j = 0; j < product.shape.n; ++j) {
      const double sum = exact(i, j), difference = d.at(i * product.shape.pitch_d + j) - sum;
      off += difference * difference, size += sum * sum;
    }
  return std::sqrt(off / size);
}

TEST(Linear, Bf16x3IsNearFp32AndFarFromBf16) {
  const GemmShape narrow = shape(64, 64, 256, true, DType::f32);
  const Product three(in_fp32(narrow));
  const auto exact = [&](std::int64_t i, std::int64_t j) { return three.terms(i, j).sum; };
  // 2^-17.6 for each term, and relatively the same for their sum, because errors have either sign.
  EXPECT_LT(error(three, exact), 6e-6);
  Product one(narrow);  // same operands, rounded
  const auto round = [](const Matrix& from, Matrix& to) {
    for (std::size_t i = 0; i < from.bytes() / 4; ++i) {
      std::uint32_t word;
      std::memcpy(&word, from.data() + 4 * i, 4);
      word = (word + 0x7fff + ((word >> 16) & 1)) >> 16;
      std::memcpy(to.data() + 2 * i, &word, 2);
    }
  };
  round(three.a, one.a), round(three.b, one.b);
  EXPECT_GT(error(one, exact), 2e-3);
}

TEST(Linear, AnyNumberOfThreadsGivesTheSameBits) {
  for (const GemmShape& s : shapes()) {
    const Product p(s);
    const Matrix one = p.run(linear_product_soft, 1);
    for (const int parts : {2, 3, 4, 7, 12}) EXPECT_TRUE(p.same(p.run(linear_product_soft, parts), one)) << parts;
  }
}

TEST(Linear, TheModelHasTheInstructionsBits) {
  if (!cpu_has_tiles()) GTEST_SKIP() << "this processor has no AMX tiles";
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
  EXPECT_FALSE(changed([](GemmShape& s) { s.operand = DType::f32; }));  // into bf16
  EXPECT_FALSE(changed([](GemmShape& s) { s.operand = DType::i32; }));
  EXPECT_FALSE(changed([](GemmShape& s) { s.pitch_a = 97; }));
}

}  // namespace
}  // namespace llmc
