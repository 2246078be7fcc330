// Scalar functions for kernels: bf16 conversions, exp, log, cos. None uses libm, so that loops vectorise and every CPU
// gives the same bits. On a GPU exp is an instruction, which is far cheaper and rounds differently.
#pragma once

#if defined(__CUDACC__)
#include "device/cuda/ptx.h"
#endif
#include "device/types.h"

namespace llmc {

LLMC_HD inline float fma(float a, float b, float c) {
#if defined(__CUDACC__)
  return ::fmaf(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

LLMC_HD inline float sqrt(float v) {
#if defined(__CUDACC__)
  return ::sqrtf(v);
#else
  return __builtin_sqrtf(v);
#endif
}

LLMC_HD inline double sqrt(double v) {
#if defined(__CUDACC__)
  return ::sqrt(v);
#else
  return __builtin_sqrt(v);
#endif
}

LLMC_HD inline float magnitude(float v) { return __builtin_fabsf(v); }

/// False for infinities and NaN.
LLMC_HD inline bool finite(double v) { return v - v == 0; }

LLMC_HD inline float to_float(float v) { return v; }
LLMC_HD inline float to_float(bf16 v) { return __builtin_bit_cast(float, static_cast<unsigned>(v.bits) << 16); }

/// Exact. Without operands that are subnormal fp32, which a trainer's threads on a CPU take for zero.
LLMC_HD inline float to_float(fp16 v) {
#if defined(__CUDA_ARCH__)
  return number_of_f16(v.bits);
#else
  const unsigned sign = (v.bits & 0x8000u) << 16, rest = v.bits & 0x7fffu;
  unsigned magnitude = (rest << 13) + (112u << 23);  // the biases are 15 and 127
  if (rest < 0x400u) magnitude = __builtin_bit_cast(unsigned, static_cast<float>(rest) * 0x1p-24f);
  if (rest >= 0x7c00u) magnitude = 0x7f800000u | (rest & 0x3ffu) << 13;
  return __builtin_bit_cast(float, sign | magnitude);
#endif
}

template <class T>
LLMC_HD T from_float(float v);

template <>
LLMC_HD inline float from_float<float>(float v) {
  return v;
}

/// Rounds to nearest, ties to even; NaN stays NaN.
template <>
LLMC_HD inline bf16 from_float<bf16>(float v) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  return bf16{bf16_bits(v)};
#else
  const unsigned bits = __builtin_bit_cast(unsigned, v);
  const unsigned rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  const unsigned quiet = bits | 0x400000u;
  return bf16{static_cast<unsigned short>((v == v ? rounded : quiet) >> 16)};
#endif
}

/// Rounds to nearest, ties to even; from 65520 on infinity; NaN is 0x7fff.
template <>
LLMC_HD inline fp16 from_float<fp16>(float v) {
#if defined(__CUDA_ARCH__)
  return fp16{f16_bits(v)};
#else
  const unsigned bits = __builtin_bit_cast(unsigned, v), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (v != v) return fp16{0x7fff};
  if (magnitude >= 0x477ff000u) return fp16{static_cast<unsigned short>(sign | 0x7c00u)};
  unsigned rounded = (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  // Below 2^-14 a sum with 0.5, whose last bit is the least fp16, rounds.
  if (magnitude < 0x38800000u)
    rounded = __builtin_bit_cast(unsigned, __builtin_bit_cast(float, magnitude) + 0.5f) - 0x3f000000u;
  return fp16{static_cast<unsigned short>(sign | rounded)};
#endif
}

/// e^v. On a GPU one instruction: relative error below 2.4e-7 + 7.3e-8 |v|, mostly from rounding v log2 e and far below
/// the precision of bf16; 0 below 2^-126, infinity from 2^128 on. Elsewhere relative error below 1.8e-7, without
/// branches: v = n ln 2 + r, |r| <= ln 2 / 2, a polynomial of degree 5 in r, and n added to the exponent; saturates at
/// 2^-120 and just below 2^128. NaN stays NaN. exp(0) is 1.
LLMC_HD inline float exp(float v) {
#if defined(__CUDA_ARCH__)
  return exp2_approx(v * 1.44269504f);
#else
  constexpr float kShift = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer, which ends up in the low bits
  const float shifted = fma(v, 1.44269504f, kShift);
  const float n = shifted - kShift;
  float r = fma(n, -0.693145752f, v);  // ln 2 in two parts, the first with 7 trailing zeros, so that n * part is exact
  r = fma(n, -1.42860677e-6f, r);
  float p = fma(0.008312521f, r, 0.04189016f);
  p = fma(p, r, 0.16667114f);
  p = fma(p, r, 0.4999923f);
  p = fma(p, r, 1.0f);
  p = fma(p, r, 1.0f);
  const float power =
      __builtin_bit_cast(float, __builtin_bit_cast(unsigned, p) + (__builtin_bit_cast(unsigned, shifted) << 23));
  // Saturates last, with comparisons that are false for NaN: clamping v instead takes g++ three times the instructions.
  const float bounded = v < -83.17766f ? 0x1p-120f : power;  // -120 ln 2
  return v > 88.722836f ? 0x1.fffffep127f : bounded;         // 128 ln 2
#endif
}

/// 1 / (1 + e^-v). Error: exp's times 1 - sigmoid(v), plus 1.2e-7 (on a GPU 1.8e-7) from the sum and the quotient.
LLMC_HD inline float sigmoid(float v) {
#if defined(__CUDA_ARCH__)
  return reciprocal_approx(1.0f + exp(-v));
#else
  return 1.0f / (1.0f + exp(-v));
#endif
}

/// Natural logarithm of a positive normal number, within 1 ulp: v = m 2^e with m in [2/3, 4/3), log1p by a polynomial.
/// NaN and infinity are returned unchanged.
LLMC_HD inline float log(float v) {
  const unsigned bits = __builtin_bit_cast(unsigned, v);
  const unsigned exponent = (bits - 0x3f2aaaabu) & 0xff800000u;
  const float f = __builtin_bit_cast(float, bits - exponent) - 1.0f;
  const float e = static_cast<float>(static_cast<int>(exponent)) * 1.1920929e-7f;  // 2^-23
  const float s = f * f;
  float r = fma(-0.130310059f, s, -0.121483512f);
  float t = fma(0.140869141f, s, 0.139814854f);
  r = fma(r, s, -0.166846126f);
  t = fma(t, s, 0.200120345f);
  r = fma(r, s, -0.249996200f);
  r = fma(t, f, r);
  r = fma(r, f, 0.333331972f);
  r = fma(r, f, -0.5f);
  r = fma(r, s, f);
  r = fma(e, 0.693147182f, r);
  return v < __builtin_huge_valf() ? r : v;
}

/// e^v in double, relative error below 1e-15: v = n ln 2 + r as above, and 13 terms of the series of e^r. 0 below -708,
/// infinity above 709. NaN stays NaN.
LLMC_HD inline double exp(double v) {
  constexpr double kShift = 6755399441055744.0;  // 1.5 * 2^52
  const double shifted = v * 1.4426950408889634 + kShift;
  const double n = shifted - kShift;
  const double r = (v - n * 0x1.62e42fee00000p-1) - n * 0x1.a39ef35793c76p-33;
  double p = 1.0;
  for (int k = 13; k > 0; --k) p = p * r / k + 1.0;
  const double power = __builtin_bit_cast(
      double, __builtin_bit_cast(unsigned long long, p) + (__builtin_bit_cast(unsigned long long, shifted) << 52));
  const double bounded = v < -708.0 ? 0.0 : power;
  return v > 709.0 ? __builtin_huge_val() : bounded;
}

/// Natural logarithm of a double from 1 to 1e30, absolute error below 1e-11: Newton's step on e^y = v from log in fp32.
LLMC_HD inline double log(double v) {
  const double near = log(static_cast<float>(v));
  return near + (v * exp(-near) - 1.0);
}

/// cos(2 pi turns) for turns in [0, 1], absolute error below 2e-7.
LLMC_HD inline float cos_turns(float turns) {
  const float away = turns > 0.5f ? 1.0f - turns : turns;  // cosine is even and has period 1
  const float t = 0.25f - away;                            // now the sine of [-1/4, 1/4] turns
  const float s = t * t;
  float p = fma(39.53671f, s, -76.54978f);
  p = fma(p, s, 81.601006f);
  p = fma(p, s, -41.341656f);
  p = fma(p, s, 6.283185f);
  return p * t;
}

}  // namespace llmc
