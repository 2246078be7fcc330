// rope: from template rope for run quickstart (274398525d62afeedc289c02dc9a8bde).
//
// Act = float, kRows = 2048, kSequence = 256, kHeads = 12, kHeadDim = 32, kPitch = 512, kInverse = false, kLanes = 1
//
// 2048 rows of 384; moves 6.32 MB, 2.36 MFLOP a launch.

// rope: rotates in place each pair of elements (i, i + kHeadDim / 2) of a row's first kHeads heads by its position's
// angle number i: (a, b) -> (a cos - b sin, b cos + a sin). The gradient rotates by minus the angle.
#include "device/group.h"

namespace llmc {

using Act = float;

constexpr int kHalf = 16;

/// qkv [kRows, kPitch]: heads of kHeadDim, position = row % kSequence, or in its document with kResets; table
/// [kSequence, kHeadDim]: kHalf cosines, kHalf sines.
LLMC_BOUNDS(1)
LLMC_KERNEL rope(Act* __restrict__ qkv, const float* __restrict__ table) {
  const Group<1, Act> lanes;
  for (const int row : lanes.rows(2048)) {
    Act* heads = qkv + static_cast<long long>(row) * 512;
    const float* angles = table + row % 256 * 32;
    const auto first = lanes.segments<12, kHalf, 32>(heads);
    const auto second = lanes.segments<12, kHalf, 32>(heads + kHalf);
    const auto cosine = lanes.segments<12, kHalf, 0>(angles);
    const auto sine = lanes.segments<12, kHalf, 0>(angles + kHalf);
    lanes.map(first, second, cosine, sine, [](float& a, float& b, float c, float s) {
      const float turned = a * c - b * s;
      b = b * c + a * s;
      a = turned;
    });
  }
}

}  // namespace llmc
