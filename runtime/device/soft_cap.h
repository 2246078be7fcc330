// Soft caps of scores and of logits: cap * tanh(v / cap), and its slope.
#pragma once

#include "device/math.h"
#include "device/types.h"

namespace llmc {

/// Relative error below 6e-7: c v P(v^2) / Q(v^2), the minimax quotient for |v| <= 8; beyond, 1 - tanh is below 2.3e-7.
/// A quotient of exponentials is inaccurate near 0, and needs another formula there: a GPU's lanes would run both. The
/// leading coefficients are 1, since a GPU keeps one that is not in a register.
LLMC_HD inline float tanh(float v) {
  const float x = v > 8.0f ? 8.0f : v < -8.0f ? -8.0f : v, s = x * x;  // NaN stays
  float p = s + 257.5847f, q = s + 967.6221f;
  p = fma(p, s, 11268.205f), q = fma(q, s, 96375.38f);
  p = fma(p, s, 87145.39f), q = fma(q, s, 1870580.6f);
  q = fma(q, s, 4043309.2f);
#if defined(__CUDA_ARCH__)
  return 46.39728f * x * p * reciprocal_approx(q);
#else
  return 46.39728f * x * p / q;
#endif
}

LLMC_HD inline float soft_cap(float v, float cap) { return cap * tanh(v * (1.0f / cap)); }

/// Slope where the result is `capped`. 0 for a score that a mask has made a large negative number.
LLMC_HD inline float soft_cap_slope(float capped, float cap) {
  const float t = capped * (1.0f / cap), slope = 1.0f - t * t;
  return slope < 0.0f ? 0.0f : slope;
}

LLMC_HD inline double soft_cap(double v, double cap) {
  const double power = exp(-2.0 * (v < 0.0 ? -v : v) / cap), quotient = (1.0 - power) / (1.0 + power);
  return v < 0.0 ? -cap * quotient : cap * quotient;
}

/// Of every element.
template <int kRows, int kCols>
LLMC_HD inline void soft_cap(float (&scores)[kRows][kCols], float cap) {
#if defined(__CUDACC__)
#pragma unroll
#endif
  for (int i = 0; i < kRows * kCols; ++i) scores[i / kCols][i % kCols] = soft_cap(scores[i / kCols][i % kCols], cap);
}

}  // namespace llmc
