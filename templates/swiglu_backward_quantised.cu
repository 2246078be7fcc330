// swiglu_backward_quantised: with s = sigmoid(gate), dup = dout * gate * s, dgate = dout * up * s * (1 + gate * (1 -
// s)), and the rows of both gradients, side by side, in e4m3.
//
// Codes of the forward pass's result may be written transposed. A block collects 16 rows in shared memory: 128 KiB with
// 8,192 columns, one block of 1,024 lanes an SM. Its 16 bytes of a column are half a sector of memory; its neighbour,
// at work at the same time, writes the other half to the same line of the L2 cache. 32 rows would not fit. A lane has a
// vector of each row and reads the next row ahead: 48 KiB of loads are under way. Without, a launch of its own would
// read and write a byte an element more, 2 of 11.
#include "device/fp8.h"
#include "device/group.h"
#include "params.h"

namespace llmc {

constexpr bool kAgain = kRecompute && !kRecomputeCodes;
/// Whether a row is read while the one before is computed: a lane has a vector of it.
constexpr bool kReadAhead = kCollected > 1 && kCols * sizeof(Act) <= kLanes * 16;

template <class Result, class Pair>
struct Inputs {
  Result gradient;
  Pair gate, up;
};

/// dout, out, out_codes [kRows, kCols]; gate_up, dgate_up, codes [kRows, 2 * kPitch]: gate in the first kCols columns,
/// up kPitch after it; factors [2 * kPitch], by which the columns of dgate_up are multiplied before they are rounded;
/// scales, out_scales [kRows]. codes and scales are those that quantise makes of dgate_up, out_codes and out_scales
/// those of out.
///
/// kNumbers: dgate_up is written; it may be gate_up. kRecompute: out = the forward pass's result, bit for bit, or, with
/// kRecomputeCodes, its codes. Unused pointers are null.
///
/// kCollected > 1: so many rows, of which there are a multiple, are collected before their codes are written
/// transposed, kPiece at once. out_scales are then known, out_codes is [kCols, kRows], and shared_scale, the largest of
/// out_scales, becomes that of all its rows, the transposed_scales [kCols].
LLMC_BOUNDS(kLanes)
LLMC_KERNEL swiglu_backward_quantised(const Act* dout, const Act* gate_up, const bf16* __restrict__ factors,
                                      Act* dgate_up, Result* __restrict__ codes, float* __restrict__ scales,
                                      Act* __restrict__ out, Result* __restrict__ out_codes,
                                      float* __restrict__ out_scales LLMC_FURTHER_OPERANDS) {
  const Group<kLanes, Act> lanes;
  [[maybe_unused]] auto collected = lanes.collected<kCollected, kCols>();
  if constexpr (kCollected > 1) {
    if (lanes.alone()) lanes.store(lanes.row<kCols>(transposed_scales), [=] { return shared_scale[0]; });
  }
  const auto gate_factors = lanes.row<kCols>(factors);
  const auto up_factors = lanes.row<kCols>(factors + kPitch);
  const auto inputs = [&](int row) {
    const auto gradient = lanes.row<kCols, kPitch>(dout, row);
    const auto gate = lanes.row<kCols, kPitch, 2 * kPitch>(gate_up, row);
    const auto up = lanes.row<kCols, kPitch, 2 * kPitch>(gate_up + kPitch, row);
    if constexpr (kReadAhead) {
      return Inputs{lanes.load(gradient), lanes.load(gate), lanes.load(up)};
    } else {
      return Inputs{gradient, gate, up};
    }
  };
  for (const int part : lanes.rows(kRows / kCollected)) {
    const int first = part * kCollected, last = first + kCollected;
    auto next = inputs(first);
    for (int row = first; row < last; ++row) {
      const auto [gradient, gate, up] = next;
      if (row + 1 < last) next = inputs(row + 1);
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
        if constexpr (kCollected > 1) {
          lanes.store(lanes.row<kCols>(collected.row(row % kCollected)), result, E4m3Row<Result>(out_scales[row]));
        } else {
          const E4m3Row<Result> of_result(e4m3_scale(lanes.largest(result, [](float v) { return magnitude(v); })));
          lanes.store(lanes.row<kCols, kPitch>(out_codes, row), result, of_result);
          if (lanes.leads()) out_scales[row] = of_result.scale;
        }
      }
    }
    if constexpr (kCollected > 1) {
      lanes.store_transposed<kPiece, kRows>(out_codes, collected, first, kCollected, out_scales, shared_scale[0]);
    }
  }
}

}  // namespace llmc
