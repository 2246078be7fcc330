// activation_forward: out = act(x) of an MLP without a gate: silu, GELU by its tanh formula, or ReLU squared.
#include "device/group.h"
#include "params.h"

namespace llmc {

/// x, out [kRows, kCols].
LLMC_BOUNDS(kLanes)
LLMC_KERNEL activation_forward(const Act* __restrict__ x, Act* __restrict__ out) {
  const Group<kLanes, Act> lanes;
  for (const int row : lanes.rows(kRows)) {
    lanes.store(lanes.result<kRows, kCols, kPitch>(out, row), lanes.row<kCols, kPitch>(x, row),
                [](float v) { return activated<kGelu, kRelu2>(v).value; });
  }
}

}  // namespace llmc
