// Compares exp, log, cos and the conversions with double precision, over their whole ranges.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "device/cpu/vector.h"
#include "kernels.h"

namespace llmc {
namespace {

float bits_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }

/// The compiler's own conversion.
unsigned short nearest_fp16(float v) { return __builtin_bit_cast(unsigned short, static_cast<_Float16>(v)); }

/// Returns the larger of two errors, infinity for NaN: std::max drops it.
double larger(double worst, double error) {
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
}

TEST(Errors, OfNaNAreInfinite) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(larger(larger(1, nan), 2), inf);
  EXPECT_EQ(larger(1, 2), 2);
}

TEST(Fp16, HasTheNumbersOfIts65536Codes) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const float number = static_cast<float>(__builtin_bit_cast(_Float16, static_cast<unsigned short>(bits)));
    const float own = to_float(fp16{static_cast<unsigned short>(bits)});
    if (std::isnan(number)) {
      ASSERT_TRUE(std::isnan(own)) << bits;
    } else {
      ASSERT_EQ(__builtin_bit_cast(unsigned, own), __builtin_bit_cast(unsigned, number)) << bits;
      ASSERT_EQ(from_float<fp16>(number).bits, bits);
    }
  }
  EXPECT_EQ(from_float<fp16>(std::numeric_limits<float>::quiet_NaN()).bits, 0x7fff);
}

/// At the middle of two neighbours and an ulp off, of both signs, and where infinity begins.
TEST(Fp16, IsRoundedToNearestAndEven) {
  for (std::uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const float low = to_float(fp16{static_cast<unsigned short>(bits)});
    const float high = bits == 0x7bff ? 65536.0f : to_float(fp16{static_cast<unsigned short>(bits + 1)});
    const float middle = low + (high - low) / 2;
    for (const float v : {middle, std::nextafter(middle, low), std::nextafter(middle, high), std::nextafter(low, high)})
      for (const float sign : {1.0f, -1.0f}) ASSERT_EQ(from_float<fp16>(sign * v).bits, nearest_fp16(sign * v)) << v;
  }
  for (const float v : {1e-30f, -1e-30f, 1e30f, -1e30f, std::numeric_limits<float>::infinity(), 65519.99f, 65520.0f})
    EXPECT_EQ(from_float<fp16>(v).bits, nearest_fp16(v)) << v;
}

TEST(Exp, IsAccurateOverItsRange) {
  double worst = 0;
  for (double v = -83.17; v < 88.72; v += 1.7e-4) {
    const float x = static_cast<float>(v);
    worst = larger(worst, std::abs(exp(x) / std::exp(static_cast<double>(x)) - 1));
  }
  EXPECT_LT(worst, 1.8e-7);  // 1.05e-7 from the polynomial and one rounding, at most 0.6e-7
  EXPECT_EQ(exp(0.0f), 1.0f);
  EXPECT_EQ(exp(-0.0f), 1.0f);
}

TEST(Exp, SaturatesAndPassesNaN) {
  const float inf = std::numeric_limits<float>::infinity();
  const double smallest = std::ldexp(1.0, -120);
  for (const float v : {-83.2f, -100.0f, -1e30f, -inf}) EXPECT_NEAR(exp(v) / smallest, 1, 1e-5) << v;
  for (const float v : {88.73f, 1e30f, inf}) {
    EXPECT_TRUE(std::isfinite(exp(v))) << v;
    EXPECT_GT(exp(v), 3.39e38f) << v;
  }
  EXPECT_TRUE(std::isnan(exp(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(exp(-std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(sigmoid(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Exp2, IsAccurateAndSaturates) {
  const auto one = [](float v) { return exp2(v - vector{})[0]; };
  double worst = 0;
  for (float v = -120; v < 127; v += 1.0f / 1024)
    worst = larger(worst, std::abs(one(v) / std::exp2(static_cast<double>(v)) - 1));
  // 9.2e-8 from the polynomial, and three roundings near 1 without fma.
  EXPECT_LT(worst, 2.5e-7);
  EXPECT_EQ(one(0.0f), 1.0f);
  for (const float v : {-121.0f, -1e30f, -std::numeric_limits<float>::infinity()}) EXPECT_EQ(one(v), 0x1p-120f) << v;
  EXPECT_TRUE(std::isnan(one(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Sigmoid, IsAccurateAndSaturates) {
  for (float v = -40; v < 40; v += 0.0137f)
    EXPECT_NEAR(sigmoid(v) * (1 + std::exp(-static_cast<double>(v))), 1, 3e-7) << v;  // exp, sum, quotient
  EXPECT_EQ(sigmoid(200.0f), 1.0f);
  EXPECT_LT(sigmoid(-200.0f), 1e-35f);
}

TEST(Log, IsWithinOneUlpOfEveryNormalNumber) {
  double worst = 0;
  for (std::uint32_t bits = 0x00800000; bits < 0x7f800000; bits += 61) {
    const float x = bits_of(bits);
    const double exact = std::log(static_cast<double>(x));
    const float near = static_cast<float>(exact);
    const double ulp = std::max<double>(std::nextafter(std::abs(near), 1e30f) - std::abs(near), 1e-45);
    worst = larger(worst, std::abs(log(x) - exact) / ulp);
  }
  EXPECT_LT(worst, 1.0);
  EXPECT_EQ(log(1.0f), 0.0f);
  EXPECT_TRUE(std::isnan(log(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_EQ(log(std::numeric_limits<float>::infinity()), std::numeric_limits<float>::infinity());
}

TEST(InDouble, ExpAndLogAreAccurate) {
  double worst = 0;
  for (double v = -707.9; v < 708.9; v += 1.37e-3) worst = larger(worst, std::abs(exp(v) / std::exp(v) - 1));
  EXPECT_LT(worst, 1e-15);
  EXPECT_EQ(exp(0.0), 1.0);
  worst = 0;
  for (double v = 1; v < 1e30; v *= 1.000123) worst = larger(worst, std::abs(log(v) - std::log(v)));
  EXPECT_LT(worst, 1e-11);
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (const double v : {-708.1, -1e300, -inf}) EXPECT_EQ(exp(v), 0.0) << v;
  for (const double v : {709.1, 1e300, inf}) EXPECT_EQ(exp(v), inf) << v;
  EXPECT_TRUE(std::isnan(exp(nan)));
  EXPECT_TRUE(std::isnan(log(nan)));
}

TEST(CosTurns, IsAccurate) {
  for (int i = 0; i <= 1 << 20; ++i) {
    const double turns = i / static_cast<double>(1 << 20);
    ASSERT_NEAR(cos_turns(static_cast<float>(turns)), std::cos(2 * M_PI * turns), 2e-7) << turns;
  }
}

/// Rounds to nearest even by comparing the two neighbours in double.
std::uint16_t nearest_bf16(float v) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, v);
  const std::uint32_t down = bits & 0xffff0000u;
  const double low = bits_of(down), high = (down & 0x7f800000u) == 0x7f800000u ? low : [&] {
    // One step away from zero. Past the largest finite number, the next power of two is used.
    const std::uint32_t up = down + 0x10000u;
    return (up & 0x7fffffffu) == 0x7f800000u ? std::copysign(std::ldexp(1.0, 128), low)
                                             : static_cast<double>(bits_of(up));
  }();
  const double below = std::abs(v - low), above = std::abs(high - v);
  const bool up = above < below || (above == below && (down >> 16 & 1));
  return static_cast<std::uint16_t>((down >> 16) + (up && high != low ? 1 : 0));
}

TEST(Bf16, RoundsToNearestEven) {
  for (std::uint64_t wide = 0; wide < 1ull << 32; wide += 4099) {
    const float v = bits_of(static_cast<std::uint32_t>(wide));
    if (std::isnan(v)) continue;
    ASSERT_EQ(from_float<bf16>(v).bits, nearest_bf16(v)) << v;
  }
  for (std::uint32_t high = 0; high < 0x10000; ++high) {  // ties and their neighbours; denormals are among them
    for (const std::uint32_t low : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const float v = bits_of(high << 16 | low);
      if (std::isnan(v)) {
        const float back = to_float(from_float<bf16>(v));
        ASSERT_TRUE(std::isnan(back) && std::signbit(back) == std::signbit(v));
      } else {
        ASSERT_EQ(from_float<bf16>(v).bits, nearest_bf16(v)) << std::hexfloat << v;
      }
    }
  }
}

TEST(Bf16, ReadsBackEveryNumber) {
  for (std::uint32_t high = 0; high < 0x10000; ++high) {
    const float v = to_float(bf16{static_cast<unsigned short>(high)});
    if (!std::isnan(v)) {
      ASSERT_EQ(from_float<bf16>(v).bits, high);
    }
  }
}

}  // namespace
}  // namespace llmc
