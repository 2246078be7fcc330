// swiglu_forward: out = silu(gate) * up, silu(g) = g / (1 + e^-g).
#include "device/group.h"
#include "params.h"

namespace llmc {

/// gate_up [kRows, 2 * kPitch]: gate in the first kCols columns, up kPitch after it; out [kRows, kCols].
LLMC_BOUNDS(kLanes)
LLMC_KERNEL swiglu_forward(const Act* __restrict__ gate_up, Act* __restrict__ out) {
  const Group<kLanes, Act> lanes;
  for (const int row : lanes.rows(kRows)) {
    const auto gate = lanes.row<kCols, kPitch, 2 * kPitch>(gate_up, row);
    const auto up = lanes.row<kCols, kPitch, 2 * kPitch>(gate_up + kPitch, row);
    const auto result = lanes.result<kRows, kCols, kPitch>(out, row);
    lanes.store(result, gate, up, [](float gate, float up) {
      if constexpr (kGelu) {
        return gelu(gate) * up;
      } else if constexpr (kRelu2) {
        return relu2(gate) * up;
      } else {
        return gate * sigmoid(gate) * up;
      }
    });
  }
}

}  // namespace llmc
