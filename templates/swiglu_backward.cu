// swiglu_backward: with s = sigmoid(gate), dup = dout * gate * s, dgate = dout * up * s * (1 + gate * (1 - s)).
#include "device/group.h"
#include "params.h"

namespace llmc {

/// dout, out [kRows, kCols]; gate_up, dgate_up [kRows, 2 * kPitch]: gate in the first kCols columns, up kPitch after
/// it. dgate_up may be gate_up. kRecompute: out = the forward pass's result, bit for bit; otherwise null.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL swiglu_backward(const Act* dout, const Act* gate_up, Act* dgate_up, Act* out) {
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
        if constexpr (kGelu || kRelu2) {
          const Activated gate = activated<kGelu, kRelu2>(x);
          y = gate.value * u;
          dx = d * u * gate.slope;
          du = d * gate.value;
        } else {
          const float s = sigmoid(x);
          const float silu = x * s;
          y = silu * u;
          dx = d * u * s * fma(x, 1.0f - s, 1.0f);
          du = d * silu;
        }
      });
    } else {
      lanes.map(gradient, gate, up, dgate, dup, [](float d, float x, float u, float& dx, float& du) {
        if constexpr (kGelu || kRelu2) {
          const Activated gate = activated<kGelu, kRelu2>(x);
          dx = d * u * gate.slope;
          du = d * gate.value;
        } else {
          const float s = sigmoid(x);
          dx = d * u * s * fma(x, 1.0f - s, 1.0f);
          du = d * (x * s);
        }
      });
    }
  }
}

}  // namespace llmc
