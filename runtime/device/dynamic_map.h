// Converts numbers to and from codes of 8 bits of the dynamic map (Dettmers et al. 2022, "8-bit optimizers via
// block-wise quantization"): the numbers are denser towards 0. A code is its number's index among the 256 sorted ones.
//
// Decade i, from 0 to 6, is [10^(i-7), 10^(i-6)]. It is cut into n equal cells, n = 2^i of signed numbers and 2^(i+1)
// of unsigned ones, and has their centres. 0 and 1 are added; -1 is missing, so that there are 256. Signed numbers have
// 0 at code 127, unsigned ones at code 0.
#pragma once

#include "device/math.h"
#include "device/types.h"

namespace llmc {

/// Elements of the optimizer's state that share a scale: the largest magnitude of the block.
constexpr int kStateBlock = 256;

/// Numbers of one sign, without 0, have the indices from 2^kFirst on, and decade i those from 2^(i + kFirst) on. The
/// last, 2^(7 + kFirst), is that of 1. Smaller indices are 0's.
template <unsigned kFirst>
LLMC_HD inline float number_at(unsigned index) {
  const unsigned bits = __builtin_bit_cast(unsigned, static_cast<float>(static_cast<int>(index)) + 0.5f);
  const unsigned decade = (bits >> 23) - 127u - kFirst;
  const float within = __builtin_bit_cast(float, (bits & 0x7fffffu) | 0x3f800000u) - 1.0f;
  // Powers of ten are exact up to here.
  const float power =
      (decade & 1u ? 10.0f : 1.0f) * (decade & 2u ? 100.0f : 1.0f) * (decade & 4u ? 10000.0f : 1.0f) * 1e-6f;
  const float number = fma(0.9f, within, 0.1f) * power, or_one = index < 128u << kFirst ? number : 1.0f;
  return index < 1u << kFirst ? 0.0f : or_one;
}

/// Returns the index of the number nearest to `x` from 0 on; numbers above 1 count as 1. Never that of 0.
template <unsigned kFirst>
LLMC_HD inline unsigned nearest_index(float x) {
  constexpr float kCells = 1u << kFirst;
  float cells = kCells, per_unit = kCells * 1.11111111e6f;  // of x's decade: n, and n / 0.9 10^(6-i)
  // The last number of a decade is also the nearest one in the first cell of the next decade's width.
  const auto decade = [&](float end, float n, float rate) {
    const bool above = x >= end;
    cells = above ? kCells * n : cells;
    per_unit = above ? kCells * rate : per_unit;
  };
  decade(1e-6f * (1.0f + 0.9f / kCells), 2.0f, 2.22222222e5f);
  decade(1e-5f * (1.0f + 0.45f / kCells), 4.0f, 4.44444444e4f);
  decade(1e-4f * (1.0f + 0.225f / kCells), 8.0f, 8.88888889e3f);
  decade(1e-3f * (1.0f + 0.1125f / kCells), 16.0f, 1.77777778e3f);
  decade(1e-2f * (1.0f + 0.05625f / kCells), 32.0f, 3.55555556e2f);
  decade(1e-1f * (1.0f + 0.028125f / kCells), 64.0f, 7.11111111e1f);
  // Indices of a decade rise from n to 2n over x 10^(6-i) from 0.1 to 1.
  const float at = fma(x, per_unit, 0.888888889f * cells);
  const unsigned first = static_cast<unsigned>(static_cast<int>(cells)), last = 2u * first - 1u,
                 found = static_cast<unsigned>(static_cast<int>(at));
  const unsigned above_least = found < first ? first : found, index = above_least > last ? last : above_least;
  return x >= 1.0f - 0.00351562500f / kCells ? 128u << kFirst : index;
}

LLMC_HD inline float to_float(dynamic8 v) {
  const int index = static_cast<int>(v.bits) - 127;
  const float number = number_at<0>(static_cast<unsigned>(index < 0 ? -index : index));
  return index < 0 ? -number : number;
}
LLMC_HD inline float to_float(udynamic8 v) { return number_at<1>(v.bits + 1u); }

/// Of a number in [-1, 1].
template <>
LLMC_HD inline dynamic8 from_float<dynamic8>(float v) {
  const float size = magnitude(v);
  const unsigned index = size < 2.75e-7f ? 0u : nearest_index<0>(size), or_less = index > 127u ? 127u : index;
  return dynamic8{static_cast<unsigned char>(v < 0.0f ? 127u - or_less : 127u + index)};
}

/// Of a number in [0, 1]. Only 0 becomes 0: an update divides by the root of a second moment.
template <>
LLMC_HD inline udynamic8 from_float<udynamic8>(float v) {
  return udynamic8{static_cast<unsigned char>(v > 0.0f ? nearest_index<1>(v) - 1u : 0u)};
}

/// Scale of a block of numbers, by which each is divided before it is rounded.
struct BlockScale {
  float scale, inverse;
  /// largest: of the block's magnitudes. A positive one counts as at least 2^-100, so that its inverse is finite.
  LLMC_HD explicit BlockScale(float largest)
      : scale(largest > 0.0f && largest < 0x1p-100f ? 0x1p-100f : largest),
        inverse(largest > 0.0f ? 1.0f / scale : 0.0f) {}

  LLMC_HD float signed_part(float v) const { return v * inverse; }
  /// Of a number from 0 on. One that is not 0 stays above 0.
  LLMC_HD float unsigned_part(float v) const {
    const float part = v * inverse;
    return v > 0.0f && part < 0x1p-100f ? 0x1p-100f : part;
  }
};

}  // namespace llmc
