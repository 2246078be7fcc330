// swiglu_backward: from template swiglu_backward for run quickstart (274398525d62afeedc289c02dc9a8bde).
//
// Act = float, kRows = 2048, kCols = 768, kPitch = 768, kRecompute = false, kLanes = 1
//
// 2048 rows of 768; moves 31.46 MB, 18.87 MFLOP a launch.

// swiglu_backward: with s = sigmoid(gate), dup = dout * gate * s, dgate = dout * up * s * (1 + gate * (1 - s)).
#include "device/group.h"

namespace llmc {

using Act = float;

/// dout, out [kRows, kCols]; gate_up, dgate_up [kRows, 2 * kPitch]: gate in the first kCols columns, up kPitch after
/// it. dgate_up may be gate_up. kRecompute: out = the forward pass's result, bit for bit; otherwise null.
LLMC_BOUNDS(1)
LLMC_KERNEL swiglu_backward(const Act* dout, const Act* gate_up, Act* dgate_up, Act* out) {
  const Group<1, Act> lanes;
  for (const int row : lanes.rows(2048)) {
    const auto gradient = lanes.row<768, 768>(dout, row);
    const auto gate = lanes.row<768, 768, 1536>(gate_up, row);
    const auto up = lanes.row<768, 768, 1536>(gate_up + 768, row);
    const auto dgate = lanes.result<2048, 768, 768, 1536>(dgate_up, row);
    const auto dup = lanes.result<2048, 768, 768, 1536>(dgate_up + 768, row);
    lanes.map(gradient, gate, up, dgate, dup, [](float d, float x, float u, float& dx, float& du) {
      const float s = sigmoid(x);
      dx = d * u * s * fma(x, 1.0f - s, 1.0f);
      du = d * (x * s);
    });
  }
}

}  // namespace llmc
