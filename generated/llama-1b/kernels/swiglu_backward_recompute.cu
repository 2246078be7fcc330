// swiglu_backward_recompute: from template swiglu_backward for run llama-1b (67f153b1f9efd53ce0b214734deeb5f9).
//
// Act = bf16, kRows = 32768, kCols = 8192, kPitch = 8192, kRecompute = true, kLanes = 256
//
// 32768 rows of 8192; moves 3221.23 MB, 3221.23 MFLOP a launch.

// swiglu_backward_recompute: with s = sigmoid(gate), dup = dout * gate * s, dgate = dout * up * s * (1 + gate * (1 -
// s)).
#include "device/group.h"

namespace llmc {

using Act = bf16;

/// dout, out [kRows, kCols]; gate_up, dgate_up [kRows, 2 * kPitch]: gate in the first kCols columns, up kPitch after
/// it. dgate_up may be gate_up. kRecompute: out = the forward pass's result, bit for bit; otherwise null.
LLMC_BOUNDS(256)
LLMC_KERNEL swiglu_backward_recompute(const Act* dout, const Act* gate_up, Act* dgate_up, Act* out) {
  const Group<256, Act> lanes;
  for (const int row : lanes.rows(32768)) {
    const auto gradient = lanes.row<8192, 8192>(dout, row);
    const auto gate = lanes.row<8192, 8192, 16384>(gate_up, row);
    const auto up = lanes.row<8192, 8192, 16384>(gate_up + 8192, row);
    const auto dgate = lanes.result<32768, 8192, 8192, 16384>(dgate_up, row);
    const auto dup = lanes.result<32768, 8192, 8192, 16384>(dgate_up + 8192, row);
    {
      const auto result = lanes.result<32768, 8192, 8192>(out, row);
      lanes.map(gradient, gate, up, dgate, dup, result, [](float d, float x, float u, float& dx, float& du, float& y) {
        const float s = sigmoid(x);
        const float silu = x * s;
        y = silu * u;
        dx = d * u * s * fma(x, 1.0f - s, 1.0f);
        du = d * silu;
      });
    }
  }
}

}  // namespace llmc
