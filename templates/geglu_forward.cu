// geglu_forward: out = gelu(gate) * up by GELU's tanh formula: gelu(g) = g / (1 + e^-h), h = sqrt(8 / pi) (g + 0.044715
// g^3).
#include "device/group.h"
#include "params.h"

namespace llmc {

constexpr float kSlope = 1.59576912f;    // sqrt(8 / pi)
constexpr float kCubic = 0.0713548163f;  // 0.044715 sqrt(8 / pi)

/// gate_up [kRows, 2 * kPitch]: gate in the first kCols columns, up kPitch after it; out [kRows, kCols].
LLMC_BOUNDS(kLanes)
LLMC_KERNEL geglu_forward(const Act* __restrict__ gate_up, Act* __restrict__ out) {
  const Group<kLanes, Act> lanes;
  for (const int row : lanes.rows(kRows)) {
    const auto gate = lanes.row<kCols, kPitch, 2 * kPitch>(gate_up, row);
    const auto up = lanes.row<kCols, kPitch, 2 * kPitch>(gate_up + kPitch, row);
    const auto result = lanes.result<kRows, kCols, kPitch>(out, row);
    lanes.store(result, gate, up, [](float g, float u) { return g * sigmoid(g * fma(kCubic, g * g, kSlope)) * u; });
  }
}

}  // namespace llmc
