// Table of the fp32 numbers at which CUDA's header begins the codes of e4m3. tests/unit/cuda/e4m3_header_test.cpp finds
// them in cuda_fp8.h where the toolkit is.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace llmc {

/// The conversion is monotone: element c - 1 has the bits of the least number that becomes code c or a larger one.
inline constexpr std::array<std::uint32_t, 126> kE4m3Borders = {
    0x3a800001, 0x3b400000, 0x3ba00001, 0x3be00000, 0x3c100001, 0x3c300000, 0x3c500001, 0x3c700000, 0x3c880001,
    0x3c980000, 0x3ca80001, 0x3cb80000, 0x3cc80001, 0x3cd80000, 0x3ce80001, 0x3cf80000, 0x3d080001, 0x3d180000,
    0x3d280001, 0x3d380000, 0x3d480001, 0x3d580000, 0x3d680001, 0x3d780000, 0x3d880001, 0x3d980000, 0x3da80001,
    0x3db80000, 0x3dc80001, 0x3dd80000, 0x3de80001, 0x3df80000, 0x3e080001, 0x3e180000, 0x3e280001, 0x3e380000,
    0x3e480001, 0x3e580000, 0x3e680001, 0x3e780000, 0x3e880001, 0x3e980000, 0x3ea80001, 0x3eb80000, 0x3ec80001,
    0x3ed80000, 0x3ee80001, 0x3ef80000, 0x3f080001, 0x3f180000, 0x3f280001, 0x3f380000, 0x3f480001, 0x3f580000,
    0x3f680001, 0x3f780000, 0x3f880001, 0x3f980000, 0x3fa80001, 0x3fb80000, 0x3fc80001, 0x3fd80000, 0x3fe80001,
    0x3ff80000, 0x40080001, 0x40180000, 0x40280001, 0x40380000, 0x40480001, 0x40580000, 0x40680001, 0x40780000,
    0x40880001, 0x40980000, 0x40a80001, 0x40b80000, 0x40c80001, 0x40d80000, 0x40e80001, 0x40f80000, 0x41080001,
    0x41180000, 0x41280001, 0x41380000, 0x41480001, 0x41580000, 0x41680001, 0x41780000, 0x41880001, 0x41980000,
    0x41a80001, 0x41b80000, 0x41c80001, 0x41d80000, 0x41e80001, 0x41f80000, 0x42080001, 0x42180000, 0x42280001,
    0x42380000, 0x42480001, 0x42580000, 0x42680001, 0x42780000, 0x42880001, 0x42980000, 0x42a80001, 0x42b80000,
    0x42c80001, 0x42d80000, 0x42e80001, 0x42f80000, 0x43080001, 0x43180000, 0x43280001, 0x43380000, 0x43480001,
    0x43580000, 0x43680001, 0x43780000, 0x43880001, 0x43980000, 0x43a80001, 0x43b80000, 0x43c80001, 0x43d80000,
};

/// Code of the fp32 number with these bits.
inline unsigned e4m3_code(std::uint32_t bits) {
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7f;  // NaN loses its sign
  const auto next = std::upper_bound(kE4m3Borders.begin(), kE4m3Borders.end(), magnitude);
  return (bits >> 24 & 0x80u) | static_cast<unsigned>(next - kE4m3Borders.begin());
}

/// Calls check(bits) with every bf16 number, every border and its neighbours of both signs, infinities and NaNs.
template <class Check>
void for_numbers_of_e4m3(const Check& check) {
  for (std::uint32_t high = 0; high < 0x10000; ++high) check(high << 16);
  for (const std::uint32_t sign : {0x00000000u, 0x80000000u}) {
    for (const std::uint32_t border : kE4m3Borders)
      for (const std::uint32_t bits : {border - 1, border, border + 1}) check(sign | bits);
    for (const std::uint32_t bits : {0x00000001u, 0x007fffffu, 0x7f7fffffu, 0x7f800000u, 0x7f800001u, 0x7fffffffu})
      check(sign | bits);
  }
}

}  // namespace llmc
