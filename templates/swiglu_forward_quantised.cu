// swiglu_forward_quantised: out = silu(gate) * up, silu(g) = g / (1 + e^-g), and out's rows in e4m3.
#include "device/fp8.h"
#include "device/group.h"
#include "params.h"

namespace llmc {

/// gate_up [kRows, 2 * kPitch]: gate in the first kCols columns, up kPitch after it; out, codes [kRows, kCols]; scales
/// [kRows]. codes and scales are those that quantise makes of out. Without kNumbers out is not written, and null.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL swiglu_forward_quantised(const Act* __restrict__ gate_up, Act* __restrict__ out, Result* __restrict__ codes,
                                     float* __restrict__ scales) {
  const Group<kLanes, Act> lanes;
  for (const int row : lanes.rows(kRows)) {
    const auto gate = lanes.row<kCols, kPitch, 2 * kPitch>(gate_up, row);
    const auto up = lanes.row<kCols, kPitch, 2 * kPitch>(gate_up + kPitch, row);
    auto results = lanes.columns<kCols, Act>();
    lanes.store(results, gate, up, [](float gate, float up) {
      if constexpr (kGelu) {
        return gelu(gate) * up;
      } else if constexpr (kRelu2) {
        return relu2(gate) * up;
      } else {
        return gate * sigmoid(gate) * up;
      }
    });
    const auto values = lanes.load(results);
    const E4m3Row<Result> rounded(e4m3_scale(lanes.largest(values, [](float v) { return magnitude(v); })));
    lanes.store(lanes.row<kCols, kPitch>(codes, row), values, rounded);
    if constexpr (kNumbers) {
      lanes.store(lanes.row<kCols, kPitch>(out, row), values, [](float v) { return v; });
    }
    if (lanes.leads()) scales[row] = rounded.scale;
  }
}

}  // namespace llmc
