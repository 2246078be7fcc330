// Compares the conversions of e4m3 and e5m2 with tables of CUDA's, and their scales with the definition.
#include "device/fp8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "device/math.h"
#include "fp8_codes.h"

namespace llmc {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();

template <class Code>
constexpr float kLargest = std::is_same_v<Code, e4m3> ? kLargestE4m3 : kLargestE5m2;

float number_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }
std::uint32_t bits_of(float v) { return __builtin_bit_cast(std::uint32_t, v); }

template <class Code>
float number_of_code(unsigned code) {
  return to_float(Code{static_cast<unsigned char>(code)});
}

template <class Code>
class Fp8 : public testing::Test {};
using Codes = testing::Types<e4m3, e5m2>;
TYPED_TEST_SUITE(Fp8, Codes);

TYPED_TEST(Fp8, IsRoundedAsByCuda) {
  for_numbers_of<TypeParam>([](std::uint32_t bits) {
    ASSERT_EQ(from_float<TypeParam>(number_of(bits)).bits, known_code<TypeParam>(bits)) << std::hex << bits;
  });
  for (std::uint64_t bits = 0; bits < 1ull << 32; bits += 4099)
    ASSERT_EQ(from_float<TypeParam>(number_of(static_cast<std::uint32_t>(bits))).bits,
              known_code<TypeParam>(static_cast<std::uint32_t>(bits)))
        << std::hex << bits;
}

/// Code c begins in the middle between the numbers of c - 1 and c, or right after it where c is odd: a tie goes to the
/// even code. So the borders define all finite numbers.
TYPED_TEST(Fp8, NumbersLieBetweenCudasBorders) {
  const auto borders = borders_of<TypeParam>();
  const auto last = static_cast<unsigned>(borders.size());
  EXPECT_EQ(number_of_code<TypeParam>(0), 0.0f);
  for (unsigned code = 1; code <= last; ++code) {
    const float below = number_of_code<TypeParam>(code - 1), number = number_of_code<TypeParam>(code);
    const float middle = (below + number) / 2;  // exact
    EXPECT_LT(below, number);
    EXPECT_EQ(bits_of(middle) + code % 2, borders[code - 1]) << code;
  }
  EXPECT_EQ(number_of_code<TypeParam>(last), kLargest<TypeParam>);
  for (unsigned code = 0; code <= last; ++code)
    EXPECT_EQ(bits_of(number_of_code<TypeParam>(code | 0x80)), bits_of(number_of_code<TypeParam>(code)) | 0x80000000u);
  for (unsigned code = last + 1; code < 0x80; ++code)
    for (const unsigned sign : {0x00u, 0x80u}) {
      const float number = number_of_code<TypeParam>(sign | code);
      if (code == 0x7c) {
        EXPECT_EQ(number, sign ? -kInfinity : kInfinity) << "e5m2 has infinities";
      } else {
        EXPECT_TRUE(std::isnan(number)) << code;
      }
    }
}

TYPED_TEST(Fp8, EveryFiniteCodeIsReadBack) {
  const auto last = static_cast<unsigned>(borders_of<TypeParam>().size());
  for (unsigned code = 0; code <= last; ++code)
    for (const unsigned sign : {0x00u, 0x80u})
      EXPECT_EQ(from_float<TypeParam>(number_of_code<TypeParam>(sign | code)).bits, sign | code);
  EXPECT_EQ(from_float<TypeParam>(number_of_code<TypeParam>(0xff)).bits, 0x7f);
}

/// The least power of two, from 2^-100 on, by which `largest` comes to at most the largest code.
template <class Code>
float scale_by_search(float largest) {
  double scale = 0x1p-100;
  while (largest / scale > kLargest<Code>) scale *= 2;
  return static_cast<float>(scale);
}

TYPED_TEST(Fp8, TheScaleBringsTheLargestBelowTheLargestCode) {
  const auto check = [](float largest) {
    const float scale = code_scale<TypeParam>(largest);
    ASSERT_EQ(scale, scale_by_search<TypeParam>(largest)) << std::hexfloat << largest;
    ASSERT_LE(largest / scale, kLargest<TypeParam>) << largest;
    if (largest > 0x1.cp-85f) {
      ASSERT_GT(largest / scale, kLargest<TypeParam> / 2) << largest;
    }
  };
  for (std::uint32_t high = 0; high < 0x7f80; ++high) check(number_of(high << 16));
  for (std::uint32_t exponent = 0; exponent < 255; ++exponent)  // 1.75 times each power of two, and its neighbours
    for (const std::uint32_t mantissa : {0x5fffffu, 0x600000u, 0x600001u, 0x7fffffu, 0x000001u})
      check(number_of(exponent << 23 | mantissa));
  EXPECT_EQ(code_scale<TypeParam>(kLargest<TypeParam>), 1);
  EXPECT_EQ(code_scale<TypeParam>(std::nextafter(kLargest<TypeParam>, kInfinity)), 2);
}

TYPED_TEST(Fp8, TheScaleOfZerosOrTinyNumbersIsTheLeast) {
  for (const float largest : {0.0f, 0x1p-149f, 0x1p-126f, kLargest<TypeParam> * 0x1p-100f})
    EXPECT_EQ(code_scale<TypeParam>(largest), 0x1p-100f);
  EXPECT_EQ(code_scale<TypeParam>(std::nextafter(kLargest<TypeParam> * 0x1p-100f, 1.0f)), 0x1p-99f);
}

TYPED_TEST(Fp8, TheScaleOfWhatIsNotFiniteIsNoNumber) {
  for (const float largest : {kInfinity, kNaN, number_of(0x7f800001u)})
    EXPECT_TRUE(std::isnan(code_scale<TypeParam>(largest)));
  EXPECT_TRUE(std::isfinite(code_scale<TypeParam>(std::numeric_limits<float>::max())));
}

/// A trainer without products of 8 bits multiplies these numbers in bf16.
TYPED_TEST(Fp8, CodesTimesScalesAreExactInBf16) {
  for (const float scale : {0x1p-100f, 1.0f, 0x1p112f})
    for (unsigned code = 0; code <= borders_of<TypeParam>().size(); ++code) {
      const float exact = number_of_code<TypeParam>(code) * scale;
      EXPECT_EQ(to_float(from_float<bf16>(exact)), exact) << code;
      EXPECT_EQ(exact / scale, number_of_code<TypeParam>(code)) << code;
    }
}

/// A maximum is taken by comparisons, which would lose NaN.
TEST(MagnitudeOrInfinity, OfWhatIsNoNumberIsInfinite) {
  for (const float v : {kInfinity, -kInfinity, kNaN, -kNaN, number_of(0x7f800001u), number_of(0xffffffffu)})
    EXPECT_EQ(magnitude_or_infinity(v), kInfinity);
  for (const float v : {0.0f, 1.5f, 0x1p-149f, std::numeric_limits<float>::max()}) {
    EXPECT_EQ(magnitude_or_infinity(v), v);
    EXPECT_EQ(magnitude_or_infinity(-v), v);
  }
}

}  // namespace
}  // namespace llmc
