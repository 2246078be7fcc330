// rope_part: rotates in place pairs of the first kRotary elements of each of a row's first kHeads heads by their
// position's angles, as rope does: pair (i, i + kRotary / 2), or with kInterleaved (2i, 2i + 1), by angle number i. The
// other elements stay. With kInverse by minus the angle. With kScaled the heads of q, all but the last kKvHeads of
// these, are multiplied by 1 + kBeta * log(1 + floor(position / kOriginal)), in either direction.
#include "device/group.h"
#include "params.h"

namespace llmc {

constexpr int kHalf = kRotary / 2;

template <int kCount>
struct HeadCount {
  static constexpr int kOwn = kCount;
};

/// qkv [kRows, kPitch]: heads of kHeadDim, position = row % kSequence, or in its document with kResets; table
/// [kSequence, kRotary]: kHalf cosines, kHalf sines, or with kInterleaved a cosine and a sine of each pair.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL rope_part(Act* __restrict__ qkv, const float* __restrict__ table LLMC_FURTHER_OPERANDS) {
  const Group<kLanes, Act> lanes;
  for (const int row : lanes.rows(kRows)) {
    int position = row % kSequence;
    if constexpr (kResets) position -= document_begin[row];
    const float* angles = table + position * kRotary;
    const auto turn = [&](auto count, int first, float factor) {
      constexpr int kOwn = decltype(count)::kOwn;
      Act* heads = qkv + static_cast<long long>(row) * kPitch + first * kHeadDim;
      const auto rotation = [=](float& a, float& b, float c, float s) {
        if constexpr (kInverse) s = -s;
        if constexpr (kScaled) c *= factor, s *= factor;
        const float turned = a * c - b * s;
        b = b * c + a * s;
        a = turned;
      };
      if constexpr (kInterleaved) {
        lanes.map_pairs(lanes.template segments<kOwn, kRotary, kHeadDim>(heads),
                        lanes.template segments<kOwn, kRotary, 0>(angles),
                        [=](Pair v, Pair angle) { rotation(v.first, v.second, angle.first, angle.second); });
      } else {
        lanes.map(lanes.template segments<kOwn, kHalf, kHeadDim>(heads),
                  lanes.template segments<kOwn, kHalf, kHeadDim>(heads + kHalf),
                  lanes.template segments<kOwn, kHalf, 0>(angles),
                  lanes.template segments<kOwn, kHalf, 0>(angles + kHalf), rotation);
      }
    };
    if constexpr (kScaled) {
      constexpr int kQueries = kHeads - kKvHeads;
      const float factor = 1.0f + kBeta * log(1.0f + static_cast<float>(position / kOriginal));
      turn(HeadCount<kQueries>(), 0, factor);
      turn(HeadCount<kKvHeads>(), kQueries, 1.0f);
      if constexpr (kRotary < kHeadDim) {
        Act* others = qkv + static_cast<long long>(row) * kPitch + kRotary;
        lanes.map(lanes.segments<kQueries, kHeadDim - kRotary, kHeadDim>(others), [=](float& v) { v *= factor; });
      }
    } else {
      turn(HeadCount<kHeads>(), 0, 1.0f);
    }
  }
}

}  // namespace llmc
