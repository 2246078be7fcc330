// Converts numbers to and from 8 bits (OCP OFP8 1.0): e4m3 has 4 bits of exponent, 3 of mantissa, no infinity; e5m2 has
// 5 and 2, and the infinities of IEEE 754.
#pragma once

#include "device/math.h"
#include "device/types.h"

namespace llmc {

/// Largest e4m3 number, 1.75 * 2^8.
constexpr float kLargestE4m3 = 448.0f;
/// Largest finite e5m2 number, 1.75 * 2^15.
constexpr float kLargestE5m2 = 57344.0f;

/// Whether numbers of this type are codes, to which a scale belongs.
template <class T>
constexpr bool is_code = false;
template <>
constexpr bool is_code<e4m3> = true;
template <>
constexpr bool is_code<e5m2> = true;

/// Magnitude of the finite number with these bits of exponent and mantissa, which are the code without its sign.
template <unsigned kMantissa, unsigned kBias>
LLMC_HD inline float magnitude_of_code(unsigned code) {
  constexpr float kStep = __builtin_bit_cast(float, (128u - kBias - kMantissa) << 23);
  // Normal codes have the exponent's bias changed to 127; subnormal ones count steps.
  const float normal = __builtin_bit_cast(float, (code << (23u - kMantissa)) + ((127u - kBias) << 23));
  const float subnormal = static_cast<float>(static_cast<int>(code)) * kStep;
  return code < 1u << kMantissa ? subnormal : normal;
}

/// Rounds to nearest, ties to even. Magnitudes above that of the code `largest`, infinities among them, become it; NaN
/// becomes 0x7f.
template <unsigned kMantissa, unsigned kBias>
LLMC_HD inline unsigned char nearest_code(float v, unsigned largest) {
  constexpr unsigned kDropped = 23u - kMantissa, kLeastNormal = (128u - kBias) << 23;
  // Its last bit stands for the step of subnormal codes.
  constexpr float kShift = __builtin_bit_cast(float, (151u - kBias - kMantissa) << 23);
  const unsigned bits = __builtin_bit_cast(unsigned, v), sign = bits >> 24 & 0x80u, magnitude = bits & 0x7fffffffu;
  const unsigned half = (1u << (kDropped - 1u)) - 1u + (magnitude >> kDropped & 1u);
  const unsigned normal = ((magnitude + half) >> kDropped) - ((127u - kBias) << kMantissa);
  const float shifted = __builtin_bit_cast(float, magnitude) + kShift;
  const unsigned subnormal = __builtin_bit_cast(unsigned, shifted) - __builtin_bit_cast(unsigned, kShift);
  const unsigned code = magnitude < kLeastNormal ? subnormal : normal;
  return static_cast<unsigned char>(magnitude > 0x7f800000u ? 0x7fu : sign | (code > largest ? largest : code));
}

/// Exact. NaN stays NaN, without its sign.
LLMC_HD inline float to_float(e4m3 v) {
  const unsigned sign = static_cast<unsigned>(v.bits & 0x80u) << 24, code = v.bits & 0x7fu;
  const unsigned number = __builtin_bit_cast(unsigned, magnitude_of_code<3, 7>(code));
  return __builtin_bit_cast(float, code == 0x7fu ? 0x7fc00000u : number | sign);
}
LLMC_HD inline float to_float(e5m2 v) {
  const unsigned sign = static_cast<unsigned>(v.bits & 0x80u) << 24, code = v.bits & 0x7fu;
  const unsigned number = __builtin_bit_cast(unsigned, magnitude_of_code<2, 15>(code));
  const unsigned or_infinity = code == 0x7cu ? 0x7f800000u : number;
  return __builtin_bit_cast(float, code > 0x7cu ? 0x7fc00000u : or_infinity | sign);
}

/// As cvt.rn.satfinite.e4m3x2.f32.
template <>
LLMC_HD inline e4m3 from_float<e4m3>(float v) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  return e4m3{static_cast<unsigned char>(e4m3_pair(v, 0.0f) & 0xffu)};
#else
  return e4m3{nearest_code<3, 7>(v, 0x7eu)};
#endif
}

/// As cvt.rn.satfinite.e5m2x2.f32.
template <>
LLMC_HD inline e5m2 from_float<e5m2>(float v) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  return e5m2{static_cast<unsigned char>(e5m2_pair(v, 0.0f) & 0xffu)};
#else
  return e5m2{nearest_code<2, 15>(v, 0x7bu)};
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

/// Returns e4m3_scale() of a tensor, for codes of this type. e5m2's largest number is 2^7 times that of e4m3.
template <class Code>
LLMC_HD float code_scale(float largest);
template <>
LLMC_HD inline float code_scale<e4m3>(float largest) {
  return e4m3_scale(largest);
}
template <>
LLMC_HD inline float code_scale<e5m2>(float largest) {
  return e4m3_scale(largest * 0x1p-7f);
}

/// Magnitude of v for the search of a tensor's largest one: NaN counts as infinity, so that it makes the scale NaN.
LLMC_HD inline float magnitude_or_infinity(float v) {
  const unsigned bits = __builtin_bit_cast(unsigned, v) & 0x7fffffffu;
  return __builtin_bit_cast(float, bits < 0x7f800000u ? bits : 0x7f800000u);
}

}  // namespace llmc
