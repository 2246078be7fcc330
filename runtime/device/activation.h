// Activations of the MLP, and their slopes: silu, GELU by its tanh formula (Hendrycks and Gimpel 2016), and ReLU
// squared (So et al. 2021).
#pragma once

#include "device/math.h"
#include "device/types.h"

namespace llmc {

constexpr float kGeluLinear = 1.59576912f;   // sqrt(8 / pi)
constexpr float kGeluCubic = 0.0713548163f;  // 0.044715 sqrt(8 / pi)

struct Activated {
  float value, slope;
};

/// x sigmoid(h), h = sqrt(8 / pi) (x + 0.044715 x^3).
LLMC_HD inline float gelu(float x) { return x * sigmoid(x * fma(kGeluCubic, x * x, kGeluLinear)); }

LLMC_HD inline float relu2(float x) {
  const float above = x < 0.0f ? 0.0f : x;  // NaN stays NaN
  return above * above;
}

/// The activation and its slope. Values have the bits of the functions above.
template <bool kIsGelu, bool kIsRelu2>
LLMC_HD inline Activated activated(float x) {
  if constexpr (kIsGelu) {
    const float s = sigmoid(x * fma(kGeluCubic, x * x, kGeluLinear));
    return {x * s, s * fma(x * (1.0f - s), fma(3.0f * kGeluCubic, x * x, kGeluLinear), 1.0f)};
  } else if constexpr (kIsRelu2) {
    return {relu2(x), 2.0f * (x < 0.0f ? 0.0f : x)};
  } else {
    const float s = sigmoid(x);
    return {x * s, s * fma(x, 1.0f - s, 1.0f)};
  }
}

}  // namespace llmc
