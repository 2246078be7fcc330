// rope: turns each pair of elements (i, i + kHeadDim / 2) of the first kHeads heads of a row by its position's angle
// number i, in place: (a, b) -> (a cos - b sin, b cos + a sin). The gradient is the turn by minus the angle.
#include "device/group.h"
#include "params.h"

namespace llmc {

constexpr int kHalf = kHeadDim / 2;

/// qkv [kRows, kPitch]: heads of kHeadDim, position = row % kSequence; table [kSequence, kHeadDim]: kHalf cosines,
/// kHalf sines.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL rope(Act* __restrict__ qkv, const float* __restrict__ table) {
  const Group<kLanes, Act> g;
  for (const int row : g.rows(kRows)) {
    Act* heads = qkv + static_cast<long long>(row) * kPitch;
    const float* angles = table + row % kSequence * kHeadDim;
    const auto first = g.segments<kHeads, kHalf, kHeadDim>(heads);
    const auto second = g.segments<kHeads, kHalf, kHeadDim>(heads + kHalf);
    const auto cosine = g.segments<kHeads, kHalf, 0>(angles);
    const auto sine = g.segments<kHeads, kHalf, 0>(angles + kHalf);
    g.map(first, second, cosine, sine, [](float& a, float& b, float c, float s) {
      if constexpr (kInverse) s = -s;
      const float turned = a * c - b * s;
      b = b * c + a * s;
      a = turned;
    });
  }
}

}  // namespace llmc
