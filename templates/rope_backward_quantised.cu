// rope_backward_quantised: rotates back each pair of elements (i, i + kHeadDim / 2) of a row's first kHeads heads by
// its position's angle number i: (a, b) -> (a cos + b sin, b cos - a sin). The other columns stay as they are. The rows
// of the result in e4m3.
#include "device/fp8.h"
#include "device/group.h"
#include "params.h"

namespace llmc {

constexpr int kHalf = kHeadDim / 2;
constexpr int kTurned = kHeads * kHeadDim;
constexpr int kOther = kKvHeads * kHeadDim;

/// dqkv, codes [kRows, kPitch]: kHeads heads of q and k and kKvHeads of v, kHeadDim columns each, without padding;
/// position = row % kSequence, or in its document with kResets; table [kSequence, kHeadDim]: kHalf cosines, kHalf
/// sines; factors [kPitch], by which columns are multiplied before they are rounded; scales [kRows]. codes and scales
/// are those that quantise makes of the rotated rows. With kNumbers these are written to dqkv, which otherwise keeps
/// what it has.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL rope_backward_quantised(Act* __restrict__ dqkv, const float* __restrict__ table,
                                    const bf16* __restrict__ factors, Result* __restrict__ codes,
                                    float* __restrict__ scales LLMC_FURTHER_OPERANDS) {
  const Group<kLanes, Act> lanes;
  const auto larger = [](float a, float b) { return a > b ? a : b; };
  const auto first_factors = lanes.segments<kHeads, kHalf, kHeadDim>(factors);
  const auto second_factors = lanes.segments<kHeads, kHalf, kHeadDim>(factors + kHalf);
  const auto other_factors = lanes.row<kOther>(factors + kTurned);
  for (const int row : lanes.rows(kRows)) {
    Act* heads = dqkv + static_cast<long long>(row) * kPitch;
    Result* result = codes + static_cast<long long>(row) * kPitch;
    const float* angles = table + row % kSequence * kHeadDim;
    if constexpr (kResets) angles -= document_begin[row] * kHeadDim;
    const auto first = lanes.load(lanes.segments<kHeads, kHalf, kHeadDim>(heads));
    const auto second = lanes.load(lanes.segments<kHeads, kHalf, kHeadDim>(heads + kHalf));
    const auto other = lanes.load(lanes.row<kOther>(heads + kTurned));
    const auto cosine = lanes.segments<kHeads, kHalf, 0>(angles);
    const auto sine = lanes.segments<kHeads, kHalf, 0>(angles + kHalf);
    // Multiplied by their factors, so that these are read once. Powers of two: the bits are as if rounded before.
    auto of_first = lanes.columns<kHeads, kHalf, Act>();
    auto of_second = lanes.columns<kHeads, kHalf, Act>();
    lanes.map(first, second, cosine, sine, first_factors, second_factors, of_first, of_second,
              [=](float a, float b, float c, float s, float f, float g, float& x, float& y) {
                x = (a * c + b * s) * f;
                y = (b * c - a * s) * g;
              });
    const auto turned_first = lanes.load(of_first), turned_second = lanes.load(of_second);
    const float largest_turned = lanes.largest(turned_first, turned_second,
                                               [=](float a, float b) { return larger(magnitude(a), magnitude(b)); });
    const float largest_other = lanes.largest(other, other_factors, [](float v, float f) { return magnitude(v * f); });
    const E4m3Row<Result> rounded(e4m3_scale(larger(largest_turned, largest_other)));
    if (lanes.leads()) scales[row] = rounded.scale;
    const auto folded = [=](float v, float f) { return rounded.folded(v, f); };
    lanes.store(lanes.segments<kHeads, kHalf, kHeadDim>(result), turned_first, first_factors, folded);
    lanes.store(lanes.segments<kHeads, kHalf, kHeadDim>(result + kHalf), turned_second, second_factors, folded);
    lanes.store(lanes.row<kOther>(result + kTurned), other, other_factors, rounded);
    if constexpr (kNumbers) {
      lanes.map(lanes.segments<kHeads, kHalf, kHeadDim>(heads), lanes.segments<kHeads, kHalf, kHeadDim>(heads + kHalf),
                cosine, sine, [=](float& a, float& b, float c, float s) {
                  const float before = a;
                  a = before * c + b * s;
                  b = b * c - before * s;
                });
    }
  }
}

}  // namespace llmc
