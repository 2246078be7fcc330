// rope_part: rotates in place pairs of the first kRotary elements of each of a row's first kHeads heads by their
// position's angles, as rope does: pair (i, i + kRotary / 2), or with kInterleaved (2i, 2i + 1), by angle number i. The
// other elements stay. With kInverse by minus the angle.
#include "device/group.h"
#include "params.h"

namespace llmc {

constexpr int kHalf = kRotary / 2;

/// qkv [kRows, kPitch]: heads of kHeadDim, position = row % kSequence, or in its document with kResets; table
/// [kSequence, kRotary]: kHalf cosines, kHalf sines, or with kInterleaved a cosine and a sine of each pair.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL rope_part(Act* __restrict__ qkv, const float* __restrict__ table LLMC_FURTHER_OPERANDS) {
  const Group<kLanes, Act> lanes;
  for (const int row : lanes.rows(kRows)) {
    Act* heads = qkv + static_cast<long long>(row) * kPitch;
    const float* angles = table + row % kSequence * kRotary;
    if constexpr (kResets) angles -= document_begin[row] * kRotary;
    if constexpr (kInterleaved) {
      const auto turned = lanes.segments<kHeads, kRotary, kHeadDim>(heads);
      lanes.map_pairs(turned, lanes.segments<kHeads, kRotary, 0>(angles), [](Pair v, Pair angle) {
        const float c = angle.first;
        float s = angle.second;
        if constexpr (kInverse) s = -s;
        const float first = v.first * c - v.second * s;
        v.second = v.second * c + v.first * s;
        v.first = first;
      });
    } else {
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
}

}  // namespace llmc
