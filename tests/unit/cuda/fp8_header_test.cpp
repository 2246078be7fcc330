// Compares e4m3 and e5m2 with cuda_fp8.h of the toolkit, which converts in plain C++ on the host.
#include <cuda_fp8.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "../templates/fp8_codes.h"
#include "device/fp8.h"

namespace llmc {
namespace {

float number_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }

template <class Code>
constexpr auto kFormat = std::is_same_v<Code, e4m3> ? __NV_E4M3 : __NV_E5M2;

template <class Code>
unsigned by_header(std::uint32_t bits) {
  return __nv_cvt_float_to_fp8(number_of(bits), __NV_SATFINITE, kFormat<Code>);
}

template <class Code>
class Fp8Header : public testing::Test {};
using Codes = testing::Types<e4m3, e5m2>;
TYPED_TEST_SUITE(Fp8Header, Codes);

TYPED_TEST(Fp8Header, BeginsItsCodesAsTheTableSays) {
  const auto borders = borders_of<TypeParam>();
  for (unsigned code = 1; code <= borders.size(); ++code) {
    std::uint32_t below = 0, at = 0x7f800000;
    while (at - below > 1) {
      const std::uint32_t middle = below + (at - below) / 2;
      (by_header<TypeParam>(middle) < code ? below : at) = middle;
    }
    EXPECT_EQ(borders[code - 1], at) << code;
  }
}

TYPED_TEST(Fp8Header, RoundsAsTheTableSays) {
  for_numbers_of<TypeParam>([](std::uint32_t bits) {
    ASSERT_EQ(by_header<TypeParam>(bits), known_code<TypeParam>(bits)) << std::hex << bits;
  });
}

TYPED_TEST(Fp8Header, RoundsAsLlmcDoes) {
  const auto check = [](std::uint32_t bits) {
    ASSERT_EQ(from_float<TypeParam>(number_of(bits)).bits, by_header<TypeParam>(bits)) << std::hex << bits;
  };
  for_numbers_of<TypeParam>(check);
  for (std::uint64_t bits = 0; bits < 1ull << 32; bits += 509) check(static_cast<std::uint32_t>(bits));
}

TYPED_TEST(Fp8Header, ReadsItsCodesAsLlmcDoes) {
  for (unsigned code = 0; code < 0x100; ++code) {
    const auto bits = static_cast<unsigned char>(code);
    const float known = __half2float(__half(__nv_cvt_fp8_to_halfraw(bits, kFormat<TypeParam>))),
                number = to_float(TypeParam{bits});
    EXPECT_TRUE(std::isnan(known)
                    ? std::isnan(number)
                    : __builtin_bit_cast(std::uint32_t, number) == __builtin_bit_cast(std::uint32_t, known))
        << code;
  }
}

}  // namespace
}  // namespace llmc
