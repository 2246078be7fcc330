// geglu_backward: with h = sqrt(8 / pi) (gate + 0.044715 gate^3) and s = sigmoid(h), dup = dout * gate * s, dgate =
// dout * up * s * (1 + gate * (1 - s) * h'), where h' = sqrt(8 / pi) (1 + 0.134145 gate^2).
#include "device/group.h"
#include "params.h"

namespace llmc {

constexpr float kSlope = 1.59576912f;    // sqrt(8 / pi)
constexpr float kCubic = 0.0713548163f;  // 0.044715 sqrt(8 / pi)

/// dout, out [kRows, kCols]; gate_up, dgate_up [kRows, 2 * kPitch]: gate in the first kCols columns, up kPitch after
/// it. dgate_up may be gate_up. kRecompute: out = the forward pass's result, bit for bit; otherwise null.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL geglu_backward(const Act* dout, const Act* gate_up, Act* dgate_up, Act* out) {
  const Group<kLanes, Act> lanes;
  for (const int row : lanes.rows(kRows)) {
    const auto gradient = lanes.row<kCols, kPitch>(dout, row);
    const auto gate = lanes.row<kCols, kPitch, 2 * kPitch>(gate_up, row);
    const auto up = lanes.row<kCols, kPitch, 2 * kPitch>(gate_up + kPitch, row);
    const auto dgate = lanes.result<kRows, kCols, kPitch, 2 * kPitch>(dgate_up, row);
    const auto dup = lanes.result<kRows, kCols, kPitch, 2 * kPitch>(dgate_up + kPitch, row);
    if constexpr (kRecompute) {
      const auto result = lanes.result<kRows, kCols, kPitch>(out, row);
      lanes.map(gradient, gate, up, dgate, dup, result, [](float d, float x, float u, float& dx, float& du, float& y) {
        const float s = sigmoid(x * fma(kCubic, x * x, kSlope));
        const float gelu = x * s;
        y = gelu * u;
        dx = d * u * s * fma(x * (1.0f - s), fma(3.0f * kCubic, x * x, kSlope), 1.0f);
        du = d * gelu;
      });
    } else {
      lanes.map(gradient, gate, up, dgate, dup, [](float d, float x, float u, float& dx, float& du) {
        const float s = sigmoid(x * fma(kCubic, x * x, kSlope));
        dx = d * u * s * fma(x * (1.0f - s), fma(3.0f * kCubic, x * x, kSlope), 1.0f);
        du = d * (x * s);
      });
    }
  }
}

}  // namespace llmc
