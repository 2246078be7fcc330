// Compares the conversions of e4m3 with a table of CUDA's, and the scale of a row with its definition.
#include "device/fp8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "device/math.h"
#include "e4m3_codes.h"

namespace llmc {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float number_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }
std::uint32_t bits_of(float v) { return __builtin_bit_cast(std::uint32_t, v); }

TEST(E4m3, IsRoundedAsByCuda) {
  for_numbers_of_e4m3([](std::uint32_t bits) {
    ASSERT_EQ(from_float<e4m3>(number_of(bits)).bits, e4m3_code(bits)) << std::hex << bits;
  });
  for (std::uint64_t bits = 0; bits < 1ull << 32; bits += 4099)
    ASSERT_EQ(from_float<e4m3>(number_of(static_cast<std::uint32_t>(bits))).bits,
              e4m3_code(static_cast<std::uint32_t>(bits)))
        << std::hex << bits;
}

/// Code c begins in the middle between the numbers of c - 1 and c, or right after it where c is odd: a tie goes to the
/// even code. So the borders define all numbers.
TEST(E4m3, NumbersLieBetweenCudasBorders) {
  EXPECT_EQ(to_float(e4m3{0}), 0.0f);
  for (unsigned char code = 1; code < 0x7f; ++code) {
    const float below = to_float(e4m3{static_cast<unsigned char>(code - 1)}), number = to_float(e4m3{code});
    const float middle = (below + number) / 2;  // exact
    EXPECT_LT(below, number);
    EXPECT_EQ(bits_of(middle) + code % 2, kE4m3Borders[code - 1u]) << int{code};
  }
  EXPECT_EQ(to_float(e4m3{0x7e}), kLargestE4m3);
  for (unsigned char code = 0; code < 0x7f; ++code)
    EXPECT_EQ(bits_of(to_float(e4m3{static_cast<unsigned char>(code | 0x80)})),
              bits_of(to_float(e4m3{code})) | 0x80000000u);
  for (const unsigned char code : {0x7f, 0xff}) EXPECT_TRUE(std::isnan(to_float(e4m3{code})));
}

TEST(E4m3, EveryCodeIsReadBack) {
  for (unsigned code = 0; code < 0x100; ++code) {
    const e4m3 v{static_cast<unsigned char>(code)};
    EXPECT_EQ(from_float<e4m3>(to_float(v)).bits, code == 0xff ? 0x7f : code);
  }
}

/// The least power of two, from 2^-100 on, by which `largest` becomes at most 448.
float scale_by_search(float largest) {
  double scale = 0x1p-100;
  while (largest / scale > 448) scale *= 2;
  return static_cast<float>(scale);
}

TEST(E4m3Scale, BringsTheLargestOfARowBelow448) {
  const auto check = [](float largest) {
    const float scale = e4m3_scale(largest);
    ASSERT_EQ(scale, scale_by_search(largest)) << std::hexfloat << largest;
    ASSERT_LE(largest / scale, 448) << largest;
    if (largest > 0x1p-92f) {
      ASSERT_GT(largest / scale, 224) << largest;
    }
  };
  for (std::uint32_t high = 0; high < 0x7f80; ++high) check(number_of(high << 16));
  for (std::uint32_t exponent = 0; exponent < 255; ++exponent)  // 1.75 times each power of two, and its neighbours
    for (const std::uint32_t mantissa : {0x5fffffu, 0x600000u, 0x600001u, 0x7fffffu, 0x000001u})
      check(number_of(exponent << 23 | mantissa));
  EXPECT_EQ(e4m3_scale(448), 1);
  EXPECT_EQ(e4m3_scale(std::nextafter(448.0f, 1e9f)), 2);
}

TEST(E4m3Scale, OfARowOfZerosOrTinyNumbersIsTheLeast) {
  for (const float largest : {0.0f, 0x1p-149f, 0x1p-126f, 0x1.cp-92f}) EXPECT_EQ(e4m3_scale(largest), 0x1p-100f);
  EXPECT_EQ(e4m3_scale(0x1.c00002p-92f), 0x1p-99f);
}

TEST(E4m3Scale, OfARowThatIsNotFiniteIsNoNumber) {
  for (const float largest : {kInfinity, std::numeric_limits<float>::quiet_NaN(), number_of(0x7f800001u)})
    EXPECT_TRUE(std::isnan(e4m3_scale(largest)));
  EXPECT_TRUE(std::isfinite(e4m3_scale(std::numeric_limits<float>::max())));
}

/// A trainer without products of 8 bits multiplies these numbers in bf16.
TEST(E4m3Scale, CodesTimesScalesAreExactInBf16) {
  for (const float scale : {0x1p-100f, 1.0f, 0x1p119f})
    for (unsigned char code = 0; code < 0x7f; ++code) {
      const float exact = to_float(e4m3{code}) * scale;
      EXPECT_EQ(to_float(from_float<bf16>(exact)), exact) << int{code};
      EXPECT_EQ(exact / scale, to_float(e4m3{code})) << int{code};
    }
}

}  // namespace
}  // namespace llmc
