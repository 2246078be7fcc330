// Soft caps of vectors, as in device/soft_cap.h.
#pragma once

#include "device/cpu/vector.h"
#include "device/soft_cap.h"

namespace llmc {

LLMC_TILE vector soft_cap(vector v, float cap) {
  vector x = v * (1.0f / cap);
  x = x > 8.0f ? 8.0f - vector{} : x < -8.0f ? -8.0f - vector{} : x;
  const vector s = x * x;
  vector p = s + 257.5847f, q = s + 967.6221f;
  p = multiply_add(p, s, 11268.205f - vector{}), q = multiply_add(q, s, 96375.38f - vector{});
  p = multiply_add(p, s, 87145.39f - vector{}), q = multiply_add(q, s, 1870580.6f - vector{});
  q = multiply_add(q, s, 4043309.2f - vector{});
  return 46.39728f * cap * x * p / q;
}

LLMC_TILE vector soft_cap_slope(vector capped, float cap) {
  const vector t = capped * (1.0f / cap);
  return larger(1.0f - t * t, vector{});
}

}  // namespace llmc
