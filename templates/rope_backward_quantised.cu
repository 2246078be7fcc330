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
/// position = row % kSequence; table [kSequence, kHeadDim]: kHalf cosines, kHalf sines; factors [kPitch], by which
/// columns are multiplied before they are rounded; scales [kRows]. codes and scales are those that quantise makes of
/// the rotated rows. With kNumbers these are written to dqkv, which otherwise keeps what it has.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL rope_backward_quantised(Act* __restrict__ dqkv, const float* __restrict__ table,
                                    const float* __restrict__ factors, Result* __restrict__ codes,
                                    float* __restrict__ scales) {
  const Group<kLanes, Act> lanes;
  const auto turned = [](float a, float b, float c, float s) { return to_float(from_float<Act>(a * c + b * s)); };
  const auto larger = [](float a, float b) { return a > b ? a : b; };
  const auto first_factors = lanes.segments<kHeads, kHalf, kHeadDim>(factors);
  const auto second_factors = lanes.segments<kHeads, kHalf, kHeadDim>(factors + kHalf);
  const auto other_factors = lanes.row<kOther>(factors + kTurned);
  for (const int row : lanes.rows(kRows)) {
    Act* heads = dqkv + static_cast<long long>(row) * kPitch;
    Result* result = codes + static_cast<long long>(row) * kPitch;
    const float* angles = table + row % kSequence * kHeadDim;
    const auto first = lanes.load(lanes.segments<kHeads, kHalf, kHeadDim>(heads));
    const auto second = lanes.load(lanes.segments<kHeads, kHalf, kHeadDim>(heads + kHalf));
    const auto other = lanes.load(lanes.row<kOther>(heads + kTurned));
    const auto cosine = lanes.segments<kHeads, kHalf, 0>(angles);
    const auto sine = lanes.segments<kHeads, kHalf, 0>(angles + kHalf);
    const float largest_turned =
        lanes.largest(first, second, cosine, sine, first_factors, second_factors,
                      [=](float a, float b, float c, float s, float f, float g) {
                        return larger(magnitude(turned(a, b, c, s) * f), magnitude(turned(b, a, c, -s) * g));
                      });
    const float largest_other = lanes.largest(other, other_factors, [](float v, float f) { return magnitude(v * f); });
    const E4m3Row<Result> rounded(e4m3_scale(larger(largest_turned, largest_other)));
    if (lanes.leads()) scales[row] = rounded.scale;
    lanes.store(lanes.segments<kHeads, kHalf, kHeadDim>(result), first, second, cosine, sine, first_factors,
                [=](float a, float b, float c, float s, float f) { return rounded(turned(a, b, c, s), f); });
    lanes.store(lanes.segments<kHeads, kHalf, kHeadDim>(result + kHalf), first, second, cosine, sine, second_factors,
                [=](float a, float b, float c, float s, float f) { return rounded(turned(b, a, c, -s), f); });
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
