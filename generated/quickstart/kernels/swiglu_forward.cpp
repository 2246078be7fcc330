// swiglu_forward: from template swiglu_forward for run quickstart (274398525d62afeedc289c02dc9a8bde).
//
// Act = float, kRows = 2048, kCols = 768, kPitch = 768, kLanes = 1
//
// 2048 rows of 768; moves 18.87 MB, 9.44 MFLOP a launch.

// swiglu_forward: out = silu(gate) * up, silu(g) = g / (1 + e^-g).
#include "device/group.h"

namespace llmc {

using Act = float;

/// gate_up [kRows, 2 * kPitch]: gate in the first kCols columns, up kPitch after it; out [kRows, kCols].
LLMC_BOUNDS(1)
LLMC_KERNEL swiglu_forward(const Act* __restrict__ gate_up, Act* __restrict__ out) {
  const Group<1, Act> lanes;
  for (const int row : lanes.rows(2048)) {
    const auto gate = lanes.row<768, 768, 1536>(gate_up, row);
    const auto up = lanes.row<768, 768, 1536>(gate_up + 768, row);
    const auto result = lanes.result<2048, 768, 768>(out, row);
    lanes.store(result, gate, up, [](float gate, float up) { return gate * sigmoid(gate) * up; });
  }
}

}  // namespace llmc
