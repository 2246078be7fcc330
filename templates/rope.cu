// rope: rotates in place each pair of elements (i, i + kHeadDim / 2) of a row's first kHeads heads by its position's
// angle number i: (a, b) -> (a cos - b sin, b cos + a sin). The gradient rotates by minus the angle.
#include "device/group.h"
#include "params.h"

namespace llmc {

constexpr int kHalf = kHeadDim / 2;

/// qkv [kRows, kPitch]: heads of kHeadDim, position = row % kSequence, or in its document with kResets; table
/// [kSequence, kHeadDim]: kHalf cosines, kHalf sines.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL rope(Act* __restrict__ qkv, const float* __restrict__ table LLMC_FURTHER_OPERANDS) {
  const Group<kLanes, Act> lanes;
  for (const int row : lanes.rows(kRows)) {
    Act* heads = qkv + static_cast<long long>(row) * kPitch;
    const float* angles = table + row % kSequence * kHeadDim;
    if constexpr (kResets) angles -= document_begin[row] * kHeadDim;
    const auto first = lanes.segments<kHeads, kHalf, kHeadDim>(heads);
    const auto second = lanes.segments<kHeads, kHalf, kHeadDim>(heads + kHalf);
    const auto cosine = lanes.segments<kHeads, kHalf, 0>(angles);
    const auto sine = lanes.segments<kHeads, kHalf, 0>(angles + kHalf);
    lanes.map(first, second, cosine, sine, [](float& a, float& b, float c, float s) {
      if constexpr (kInverse) s = -s;
      const float turned = a * c - b * s;
      b = b * c + a * s;
      a = turned;
    });
  }
}

}  // namespace llmc
