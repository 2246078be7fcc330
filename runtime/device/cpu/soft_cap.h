// Soft caps of vectors, as in device/soft_cap.h.
#pragma once

#include "device/cpu/vector.h"
#include "device/soft_cap.h"

namespace llmc {

LLMC_TILE vector soft_cap(vector v, float cap) {
  const vector x = v * (1.0f / cap), size = x < 0.0f ? -x : x, s = x * x;
  const vector power = exp2(size * -2.88539008f);  // -2 log2 e
  const vector quotient = (1.0f - power) / (1.0f + power);
  vector p = multiply_add(s, 0.021869489f - vector{}, -0.053968254f - vector{});
  p = multiply_add(p, s, 0.13333334f - vector{});
  p = multiply_add(p, s, -0.33333334f - vector{});
  const vector series = multiply_add(x * s, p, x), far = x < 0.0f ? -quotient : quotient;
  return (size < 0.25f ? series : far) * cap;
}

LLMC_TILE vector soft_cap_slope(vector capped, float cap) {
  const vector t = capped * (1.0f / cap);
  return larger(1.0f - t * t, vector{});
}

}  // namespace llmc
