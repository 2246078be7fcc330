// swiglu_backward_quantised: with s = sigmoid(gate), dup = dout * gate * s, dgate = dout * up * s * (1 + gate * (1 -
// s)), and the rows of both gradients, side by side, in e4m3.
#include "device/fp8.h"
#include "device/group.h"
#include "params.h"

namespace llmc {

constexpr bool kAgain = kRecompute && !kRecomputeCodes;

/// dout, out, out_codes [kRows, kCols]; gate_up, dgate_up, codes [kRows, 2 * kPitch]: gate in the first kCols columns,
/// up kPitch after it; factors [2 * kPitch], by which the columns of dgate_up are multiplied before they are rounded;
/// scales, out_scales [kRows]. codes and scales are those that quantise makes of dgate_up, out_codes and out_scales
/// those of out.
///
/// kNumbers: dgate_up is written; it may be gate_up. kRecompute: out = the forward pass's result, bit for bit, or, with
/// kRecomputeCodes, its codes. Unused pointers are null.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL swiglu_backward_quantised(const Act* dout, const Act* gate_up, const bf16* __restrict__ factors,
                                      Act* dgate_up, Result* __restrict__ codes, float* __restrict__ scales,
                                      Act* __restrict__ out, Result* __restrict__ out_codes,
                                      float* __restrict__ out_scales) {
  const Group<kLanes, Act> lanes;
  const auto gate_factors = lanes.row<kCols>(factors);
  const auto up_factors = lanes.row<kCols>(factors + kPitch);
  for (const int row : lanes.rows(kRows)) {
    const auto gradient = lanes.row<kCols, kPitch>(dout, row);
    const auto gate = lanes.row<kCols, kPitch, 2 * kPitch>(gate_up, row);
    const auto up = lanes.row<kCols, kPitch, 2 * kPitch>(gate_up + kPitch, row);
    auto dgate = lanes.row_if<kNumbers, kCols, kPitch, 2 * kPitch>(dgate_up, row);
    auto dup = lanes.row_if<kNumbers, kCols, kPitch, 2 * kPitch>(dgate_up + kPitch, row);
    auto again = lanes.row_if<kAgain, kCols, kPitch>(out, row);
    [[maybe_unused]] auto again_in_bf16 = lanes.columns<kCols, Act>();
    // Multiplied by their factors, so that these are read once. Powers of two: the bits are as if rounded before.
    auto of_gate = lanes.columns<kCols, Act>();
    auto of_up = lanes.columns<kCols, Act>();
    lanes.map(gradient, gate, up, gate_factors, up_factors, of_gate, of_up, dgate, dup, again, again_in_bf16,
              [](float d, float x, float u, float f, float g, float& folded_gate, float& folded_up, float& dx,
                 float& du, float& y, float& kept) {
                if constexpr (kGelu || kRelu2) {
                  const Activated gate = activated<kGelu, kRelu2>(x);
                  kept = y = gate.value * u;
                  dx = d * u * gate.slope;
                  du = d * gate.value;
                } else {
                  const float s = sigmoid(x);
                  const float silu = x * s;
                  kept = y = silu * u;
                  dx = d * u * s * fma(x, 1.0f - s, 1.0f);
                  du = d * silu;
                }
                folded_gate = dx * f;
                folded_up = du * g;
              });
    const auto folded_gate = lanes.load(of_gate), folded_up = lanes.load(of_up);
    const E4m3Row<Result> rounded(e4m3_scale(lanes.largest(folded_gate, folded_up, [](float dx, float du) {
      return magnitude(dx) > magnitude(du) ? magnitude(dx) : magnitude(du);
    })));
    if (lanes.leads()) scales[row] = rounded.scale;
    lanes.store(lanes.row<kCols, kPitch, 2 * kPitch>(codes, row), folded_gate, gate_factors,
                [=](float v, float f) { return rounded.folded(v, f); });
    lanes.store(lanes.row<kCols, kPitch, 2 * kPitch>(codes + kPitch, row), folded_up, up_factors,
                [=](float v, float f) { return rounded.folded(v, f); });
    if constexpr (kRecomputeCodes) {
      const auto result = lanes.load(again_in_bf16);
      const E4m3Row<Result> of_result(e4m3_scale(lanes.largest(result, [](float v) { return magnitude(v); })));
      lanes.store(lanes.row<kCols, kPitch>(out_codes, row), result, of_result);
      if (lanes.leads()) out_scales[row] = of_result.scale;
    }
  }
}

}  // namespace llmc
