// Compares e4m3 with cuda_fp8.h of the toolkit, which converts in plain C++ on the host.
#include <cuda_fp8.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "../templates/e4m3_codes.h"
#include "device/fp8.h"

namespace llmc {
namespace {

float number_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }

unsigned by_header(std::uint32_t bits) { return __nv_cvt_float_to_fp8(number_of(bits), __NV_SATFINITE, __NV_E4M3); }

TEST(E4m3Header, BeginsItsCodesAsTheTableSays) {
  for (unsigned code = 1; code < 0x7f; ++code) {
    std::uint32_t below = 0, at = 0x7f800000;
    while (at - below > 1) {
      const std::uint32_t middle = below + (at - below) / 2;
      (by_header(middle) < code ? below : at) = middle;
    }
    EXPECT_EQ(kE4m3Borders[code - 1], at) << code;
  }
}

TEST(E4m3Header, RoundsAsTheTableSays) {
  for_numbers_of_e4m3([](std::uint32_t bits) { ASSERT_EQ(by_header(bits), e4m3_code(bits)) << std::hex << bits; });
}

TEST(E4m3Header, RoundsAsLlmcDoes) {
  const auto check = [](std::uint32_t bits) {
    ASSERT_EQ(from_float<e4m3>(number_of(bits)).bits, by_header(bits)) << std::hex << bits;
  };
  for_numbers_of_e4m3(check);
  for (std::uint64_t bits = 0; bits < 1ull << 32; bits += 509) check(static_cast<std::uint32_t>(bits));
}

TEST(E4m3Header, ReadsItsCodesAsLlmcDoes) {
  for (unsigned code = 0; code < 0x100; ++code) {
    const auto bits = static_cast<unsigned char>(code);
    const float known = __half2float(__half(__nv_cvt_fp8_to_halfraw(bits, __NV_E4M3))), number = to_float(e4m3{bits});
    EXPECT_TRUE(std::isnan(known)
                    ? std::isnan(number)
                    : __builtin_bit_cast(std::uint32_t, number) == __builtin_bit_cast(std::uint32_t, known))
        << code;
  }
}

}  // namespace
}  // namespace llmc
