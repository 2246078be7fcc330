#include "spec/scalars.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <utility>

namespace llmc::spec {
namespace {

TEST(Integers, SuffixesAndSeparators) {
  EXPECT_EQ(parse_integer("0").value, 0);
  EXPECT_EQ(parse_integer("-17").value, -17);
  EXPECT_EQ(parse_integer("1_000_000").value, 1000000);
  EXPECT_EQ(parse_integer("3K").value, 3000);
  EXPECT_EQ(parse_integer("3M").value, 3000000);
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
  const std::pair<const char*, const char*> commas[] = {{"1,024", "1024"},
                                                        {"-1,024", "-1024"},
                                                        {"1,024,000", "1024000"},
                                                        {"16,384K", "16384K"},
                                                        {"1,02", ""},
                                                        {"1024,000", ""},
                                                        {"1,", ""},
                                                        {"0,123", ""},
                                                        {"1,0245", ""}};
  for (const auto& [text, instead] : commas) {
    EXPECT_EQ(parse_integer(text).problem, "has a comma") << text;
    EXPECT_EQ(parse_integer(text).instead, instead) << text;
  }
  const std::pair<const char*, const char*> numbers[] = {
      {"0,001", "0.001"}, {"-0,5", "-0.5"}, {"1,024", "1024"}, {"3,5e-4", ""}, {"1,", ""}};
  for (const auto& [text, instead] : numbers) {
    EXPECT_EQ(parse_number(text).problem, "has a comma") << text;
    EXPECT_EQ(parse_number(text).instead, instead) << text;
  }
}

TEST(Bytes, EverySuffix) {
  const std::pair<const char*, std::int64_t> table[] = {{"", 1},
                                                        {"B", 1},
                                                        {"K", 1'000},
                                                        {"KB", 1'000},
                                                        {"M", 1'000'000},
                                                        {"MB", 1'000'000},
                                                        {"G", 1'000'000'000},
                                                        {"GB", 1'000'000'000},
                                                        {"T", 1'000'000'000'000},
                                                        {"TB", 1'000'000'000'000},
                                                        {"Ki", 1'024},
                                                        {"KiB", 1'024},
                                                        {"Mi", 1'048'576},
                                                        {"MiB", 1'048'576},
                                                        {"Gi", 1'073'741'824},
                                                        {"GiB", 1'073'741'824},
                                                        {"Ti", 1'099'511'627'776},
                                                        {"TiB", 1'099'511'627'776}};
  for (const auto& [suffix, factor] : table)
    EXPECT_EQ(parse_bytes(std::string("80") + suffix).value, 80 * factor) << suffix;
  for (const char* text : {"80GIB", "80gb", "80kB", "80iB", "80BB", "80 GB", "80PB"})
    EXPECT_FALSE(parse_bytes(text).value) << text;
}

TEST(Bytes, TextReadsBack) {
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
    const ParsedScalar<double> back = parse_number(number_text(value));
    ASSERT_TRUE(back.value) << number_text(value);
    EXPECT_EQ(*back.value, value);
  }
}

}  // namespace
}  // namespace llmc::spec
