// swiglu_forward: from template swiglu_forward for run llama-1b (67f153b1f9efd53ce0b214734deeb5f9).
//
// Act = bf16, kRows = 32768, kCols = 8192, kPitch = 8192, kLanes = 256
//
// 32768 rows of 8192; moves 1610.61 MB, 1610.61 MFLOP a launch.

// swiglu_forward: out = silu(gate) * up, silu(g) = g / (1 + e^-g).
#include "device/group.h"

namespace llmc {

using Act = bf16;

/// gate_up [kRows, 2 * kPitch]: gate in the first kCols columns, up kPitch after it; out [kRows, kCols].
LLMC_BOUNDS(256)
LLMC_KERNEL swiglu_forward(const Act* __restrict__ gate_up, Act* __restrict__ out) {
  const Group<256, Act> lanes;
  for (const int row : lanes.rows(32768)) {
    const auto gate = lanes.row<8192, 8192, 16384>(gate_up, row);
    const auto up = lanes.row<8192, 8192, 16384>(gate_up + 8192, row);
    const auto result = lanes.result<32768, 8192, 8192>(out, row);
    lanes.store(result, gate, up, [](float gate, float up) { return gate * sigmoid(gate) * up; });
  }
}

}  // namespace llmc
