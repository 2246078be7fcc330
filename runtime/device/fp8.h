// Converts numbers to and from 8 bits: e4m3 (OCP OFP8 1.0) has 4 bits of exponent, 3 of mantissa, no infinity.
#pragma once

#include "device/math.h"
#include "device/types.h"

namespace llmc {

/// Largest e4m3 number, 1.75 * 2^8.
constexpr float kLargestE4m3 = 448.0f;

/// Whether numbers of this type are codes, to which a scale belongs.
template <class T>
constexpr bool is_code = false;
template <>
constexpr bool is_code<e4m3> = true;

/// Exact. NaN stays NaN, without its sign.
LLMC_HD inline float to_float(e4m3 v) {
  const unsigned sign = static_cast<unsigned>(v.bits & 0x80u) << 24, code = v.bits & 0x7fu;
  // Normal codes have the exponent's bias changed from 7 to 127; subnormal ones count steps of 2^-9.
  const float magnitude = __builtin_bit_cast(float, (code << 20) + (120u << 23));
  const float below = static_cast<float>(static_cast<int>(code)) * 0x1p-9f;
  const float number = code < 8u ? below : magnitude;
  return __builtin_bit_cast(float, code == 0x7fu ? 0x7fc00000u : __builtin_bit_cast(unsigned, number) | sign);
}

/// Rounds to nearest, ties to even. Larger numbers and infinities become the largest number of their sign; NaN becomes
/// 0x7f. As cvt.rn.satfinite.e4m3x2.f32.
template <>
LLMC_HD inline e4m3 from_float<e4m3>(float v) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  return e4m3{static_cast<unsigned char>(e4m3_pair(v, 0.0f) & 0xffu)};
#else
  const unsigned bits = __builtin_bit_cast(unsigned, v), sign = bits >> 24 & 0x80u, magnitude = bits & 0x7fffffffu;
  const unsigned normal = (magnitude + 0x7ffffu + (magnitude >> 20 & 1u)) >> 20;
  // The last bit of 2^14 stands for 2^-9, the step of subnormal codes.
  const float shifted = __builtin_bit_cast(float, magnitude) + 0x1p14f;
  const unsigned subnormal = __builtin_bit_cast(unsigned, shifted) - __builtin_bit_cast(unsigned, 0x1p14f);
  const unsigned in_range = magnitude < 0x3c800000u ? subnormal : normal - (120u << 3);  // 2^-6
  const unsigned code = magnitude >= 0x43e00000u ? 0x7eu : in_range;                     // 448
  return e4m3{static_cast<unsigned char>(magnitude > 0x7f800000u ? 0x7fu : sign | code)};
#endif
}

/// Returns the power of two by which a row is divided before it is rounded to e4m3. `largest`, the largest magnitude of
/// its elements, comes to lie in (224, 448], so that nothing saturates. At least 2^-100, so that codes times scales are
/// exact in bf16. NaN if `largest` is not finite: then all of the row becomes NaN, which saturation would hide.
LLMC_HD inline float e4m3_scale(float largest) {
  const unsigned bits = __builtin_bit_cast(unsigned, largest);
  // Adding 1/4 less one unit to the mantissa carries into the exponent if it is above 1.75.
  const unsigned power = (bits + 0x1fffffu) & 0x7f800000u;
  const unsigned scale = power < (35u << 23) ? 27u << 23 : power - (8u << 23);  // 2^-92; 2^-100
  return __builtin_bit_cast(float, bits < 0x7f800000u ? scale : 0x7fc00000u);
}

/// Same for a row of a weight, at least 2^-16. The scale is also a factor of a column of dy: with a tiny one, that of a
/// row of zeros would round the row's own gradient to zero. Weights from 2^-22 on keep all bits of a code.
LLMC_HD inline float e4m3_weight_scale(float largest) {
  const float scale = e4m3_scale(largest);
  return scale < 0x1p-16f ? 0x1p-16f : scale;
}

/// Stores elements of a row in e4m3: as codes, or as the numbers that codes and the row's scale stand for.
template <class Result>
struct E4m3Row {
  float scale, inverse;
  LLMC_HD explicit E4m3Row(float of_row) : scale(of_row), inverse(1.0f / of_row) {}

  /// Returns the element to be stored for v. factor: of the element's column, a power of two by which v is multiplied
  /// before it is rounded; a number is divided by it once more.
  LLMC_HD float operator()(float v, float factor = 1.0f) const { return folded(v * factor, factor); }
  /// Same for a v that has been multiplied by its factor.
  LLMC_HD float folded(float v, float factor) const {
    const float divided = v * inverse;
    return is_code<Result> ? divided : to_float(from_float<e4m3>(divided)) * scale / factor;
  }
};

}  // namespace llmc
