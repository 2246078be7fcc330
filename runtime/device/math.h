// Conversions and elementary functions of the kernels: the same source, and the same rounding, on every target.
#pragma once

#include "device/types.h"

#if defined(__CUDACC__)
#define LLMC_INLINE __host__ __device__ inline __attribute__((always_inline))
#else
#define LLMC_INLINE inline __attribute__((always_inline))
#endif

namespace llmc {

LLMC_INLINE float bits_to_float(unsigned bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

LLMC_INLINE unsigned float_to_bits(float value) {
  unsigned bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}

LLMC_INLINE float to_float(float value) { return value; }
LLMC_INLINE float to_float(bf16 value) { return bits_to_float(static_cast<unsigned>(value.bits) << 16); }

/// Round to nearest, ties to even; NaN stays a NaN.
template <class T>
LLMC_INLINE T from_float(float value);

template <>
LLMC_INLINE float from_float<float>(float value) {
  return value;
}

template <>
LLMC_INLINE bf16 from_float<bf16>(float value) {
  const unsigned bits = float_to_bits(value);
  const unsigned rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const unsigned quiet = (bits >> 16) | 0x40u;
  return {static_cast<unsigned short>(value == value ? rounded : quiet)};
}

// The target's own correctly rounded or accurate functions.
#if defined(__CUDACC__)
/// a * b + c, rounded once.
LLMC_INLINE float multiply_add(float a, float b, float c) { return ::fmaf(a, b, c); }
LLMC_INLINE float sqrt(float x) { return ::sqrtf(x); }
LLMC_INLINE double sqrt(double x) { return ::sqrt(x); }
LLMC_INLINE float log(float x) { return ::logf(x); }
LLMC_INLINE float cos(float x) { return ::cosf(x); }
LLMC_INLINE float sin(float x) { return ::sinf(x); }
#else
/// a * b + c, rounded once.
LLMC_INLINE float multiply_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
LLMC_INLINE float sqrt(float x) { return __builtin_sqrtf(x); }
LLMC_INLINE double sqrt(double x) { return __builtin_sqrt(x); }
LLMC_INLINE float log(float x) { return __builtin_logf(x); }
LLMC_INLINE float cos(float x) { return __builtin_cosf(x); }
LLMC_INLINE float sin(float x) { return __builtin_sinf(x); }
#endif

LLMC_INLINE bool is_finite(float x) { return x - x == 0.0f; }
LLMC_INLINE bool is_finite(double x) { return x - x == 0.0; }

/// e^x, relative error below 2e-7 where the result is normal; arguments are clamped to [-87.3, 88.7], so that neither
/// denormals nor infinities arise. 2^n times a polynomial of degree 6 on [-ln 2 / 2, ln 2 / 2].
LLMC_INLINE float exp(float x) {
  x = x < -87.3f ? -87.3f : x;
  x = x > 88.7f ? 88.7f : x;
  // Adding and taking away 1.5 * 2^23 rounds to the nearest integer without a conversion.
  const float shifted = multiply_add(x, 1.44269504f, 12582912.0f);
  const float n = shifted - 12582912.0f;
  float r = multiply_add(n, -0.693145752f, x);
  r = multiply_add(n, -1.42860677e-6f, r);
  float p = 1.3981999e-3f;
  p = multiply_add(p, r, 8.3334519e-3f);
  p = multiply_add(p, r, 4.1665795e-2f);
  p = multiply_add(p, r, 1.6666665e-1f);
  p = multiply_add(p, r, 5.0000000e-1f);
  p = multiply_add(p, r, 1.0f);
  p = multiply_add(p, r, 1.0f);
  return bits_to_float(float_to_bits(p) + (float_to_bits(shifted) << 23));
}

LLMC_INLINE float sigmoid(float x) { return 1.0f / (1.0f + exp(-x)); }

}  // namespace llmc
