// swiglu_backward: with s = sigmoid(gate), dup = dout * gate * s, dgate = dout * up * s * (1 + gate * (1 - s)).
#include "device/group.h"
#include "params.h"

namespace llmc {

/// dout, out [kRows, kCols]; gate_up, dgate_up [kRows, 2 * kPitch]: gate in the first kCols columns, up kPitch after
/// it. dgate_up may be gate_up. kRecompute: out = the forward's result, the same bits; otherwise null.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL swiglu_backward(const Act* dout, const Act* gate_up, Act* dgate_up, Act* out) {
  const Group<kLanes, Act> g;
  for (const int row : g.rows(kRows)) {
    const auto gradient = g.row<kCols, kPitch>(dout, row);
    const auto gate = g.row<kCols, kPitch, 2 * kPitch>(gate_up, row);
    const auto up = g.row<kCols, kPitch, 2 * kPitch>(gate_up + kPitch, row);
    const auto dgate = g.result<kRows, kCols, kPitch, 2 * kPitch>(dgate_up, row);
    const auto dup = g.result<kRows, kCols, kPitch, 2 * kPitch>(dgate_up + kPitch, row);
    if constexpr (kRecompute) {
      const auto result = g.result<kRows, kCols, kPitch>(out, row);
      g.map(gradient, gate, up, dgate, dup, result, [](float d, float x, float u, float& dx, float& du, float& y) {
        const float s = sigmoid(x);
        const float silu = x * s;
        y = silu * u;
        dx = d * u * s * fma(x, 1.0f - s, 1.0f);
        du = d * silu;
      });
    } else {
      g.map(gradient, gate, up, dgate, dup, [](float d, float x, float u, float& dx, float& du) {
        const float s = sigmoid(x);
        dx = d * u * s * fma(x, 1.0f - s, 1.0f);
        du = d * (x * s);
      });
    }
  }
}

}  // namespace llmc
