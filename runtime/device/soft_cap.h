// Soft caps of scores and of logits: cap * tanh(v / cap), and its slope.
#pragma once

#include "device/math.h"
#include "device/types.h"

namespace llmc {

/// Relative error below 1e-6. Near 0 a series, since the quotient's error is relative to 1.
LLMC_HD inline float tanh(float v) {
  const float size = magnitude(v), s = v * v;
  const float power = exp(-2.0f * size), quotient = (1.0f - power) / (1.0f + power);
  float p = fma(0.021869489f, s, -0.053968254f);  // 62 / 2835, -17 / 315
  p = fma(p, s, 0.13333334f);
  p = fma(p, s, -0.33333334f);
  const float series = fma(v * s, p, v), far = v < 0.0f ? -quotient : quotient;
  return size < 0.25f ? series : far;
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
