// rope_inverse: from template rope for run llama-1b (67f153b1f9efd53ce0b214734deeb5f9).
//
// Act = bf16, kRows = 32768, kSequence = 2048, kHeads = 40, kHeadDim = 64, kPitch = 3072, kInverse = true, kLanes = 128
//
// 32768 rows of 2560; moves 336.07 MB, 251.66 MFLOP a launch.

// rope: rotates in place each pair of elements (i, i + kHeadDim / 2) of a row's first kHeads heads by its position's
// angle number i: (a, b) -> (a cos - b sin, b cos + a sin). The gradient rotates by minus the angle.
#include "device/group.h"

namespace llmc {

using Act = bf16;

constexpr int kHalf = 32;

/// qkv [kRows, kPitch]: heads of kHeadDim, position = row % kSequence, or in its document with kResets; table
/// [kSequence, kHeadDim]: kHalf cosines, kHalf sines.
LLMC_BOUNDS(128)
LLMC_KERNEL rope_inverse(Act* __restrict__ qkv, const float* __restrict__ table) {
  const Group<128, Act> lanes;
  for (const int row : lanes.rows(32768)) {
    Act* heads = qkv + static_cast<long long>(row) * 3072;
    const float* angles = table + row % 2048 * 64;
    const auto first = lanes.segments<40, kHalf, 64>(heads);
    const auto second = lanes.segments<40, kHalf, 64>(heads + kHalf);
    const auto cosine = lanes.segments<40, kHalf, 0>(angles);
    const auto sine = lanes.segments<40, kHalf, 0>(angles + kHalf);
    lanes.map(first, second, cosine, sine, [](float& a, float& b, float c, float s) {
      s = -s;
      const float turned = a * c - b * s;
      b = b * c + a * s;
      a = turned;
    });
  }
}

}  // namespace llmc
