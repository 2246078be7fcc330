#include "spec/scalars.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

namespace llmc::spec {
namespace {

TEST(Integers, SuffixesAndSeparators) {
  EXPECT_EQ(parse_integer("0").value, 0);
  EXPECT_EQ(parse_integer("-17").value, -17);
  EXPECT_EQ(parse_integer("1_000_000").value, 1000000);
  EXPECT_EQ(parse_integer("3K").value, 3000);
  EXPECT_EQ(parse_integer("3Ki").value, 3072);
  EXPECT_EQ(parse_integer("1Mi").value, 1048576);
  EXPECT_EQ(parse_integer("2G").value, 2000000000);
  EXPECT_EQ(parse_integer("2Gi").value, 2147483648);
  EXPECT_EQ(parse_integer("9223372036854775807").value, INT64_MAX);
}

TEST(Integers, Refused) {
  for (const char* text : {"", "-", "010", "00", "+1", "1e3", "1.0", "0x10", "1__0", "_1", "1_", "1k", "1 ", " 1",
                           "1KiB", "9223372036854775808", "9999999999Gi", "1_K", "٣"})
    EXPECT_FALSE(parse_integer(text).value) << text;
  EXPECT_EQ(parse_integer("010").instead, "10");
  EXPECT_EQ(parse_integer("1e3").instead, "1000");
  EXPECT_EQ(parse_integer("+1").instead, "1");
}

TEST(Bytes, Suffixes) {
  EXPECT_EQ(parse_bytes("80GiB").value, std::int64_t{80} << 30);
  EXPECT_EQ(parse_bytes("80Gi").value, std::int64_t{80} << 30);
  EXPECT_EQ(parse_bytes("80GB").value, 80000000000);
  EXPECT_EQ(parse_bytes("1TiB").value, std::int64_t{1} << 40);
  EXPECT_EQ(parse_bytes("12B").value, 12);
  EXPECT_FALSE(parse_bytes("80GIB").value);
  for (std::int64_t bytes : {std::int64_t{1}, std::int64_t{1023}, std::int64_t{5} << 10, std::int64_t{7} << 20,
                             std::int64_t{80} << 30, std::int64_t{3} << 41})
    EXPECT_EQ(parse_bytes(bytes_text(bytes)).value, bytes) << bytes_text(bytes);
}

TEST(Numbers, Forms) {
  EXPECT_EQ(parse_number("3e-4").value, 3e-4);
  EXPECT_EQ(parse_number("3.0E-4").value, 3e-4);
  EXPECT_EQ(parse_number("1e+3").value, 1000);
  EXPECT_EQ(parse_number("500_000").value, 500000);
  EXPECT_EQ(parse_number("-0.5").value, -0.5);
  for (const char* text :
       {"", "-", ".5", "5.", "1.e3", "1e", "nan", ".inf", "inf", "01.5", "1e999", "0x1p3", "1,5", "1 ", "+1"})
    EXPECT_FALSE(parse_number(text).value) << text;
  EXPECT_EQ(parse_number(".5").instead, "0.5");
  EXPECT_EQ(parse_number("1.e-8").instead, "1.0e-8");
}

TEST(Numbers, EveryFiniteDoubleReadsBackToItsBits) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) {
    const std::uint64_t bits = random();
    double value;
    std::memcpy(&value, &bits, sizeof value);
    if (!std::isfinite(value) || std::fpclassify(value) == FP_SUBNORMAL) continue;
    const Scalar<double> back = parse_number(number_text(value));
    ASSERT_TRUE(back.value) << number_text(value);
    EXPECT_EQ(*back.value, value);
  }
}

}  // namespace
}  // namespace llmc::spec
