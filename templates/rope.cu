// Rotary position embedding (Su et al. 2021) in Hugging Face's layout, in place: element i of a head is turned with
// element i + kHeadDim / 2. kInverse turns back: the gradient of a rotation.
// qkv [kRows, kPitch], of which the first kHeads heads (queries and keys) turn; table [kSequence, kHeadDim]: cosines, sines.
#include "device/group.h"
#include "params.h"

namespace llmc {

LLMC_KERNEL rope(Act* qkv, const float* table) {
  constexpr int kHalf = kHeadDim / 2;
  const Group<kLanes> g;
  for (int row : g.rows(kRows)) {
    const float* angles = table + row % kSequence * kHeadDim;
    const auto cosines = g.load<kHalf>(angles);
    const auto sines = g.load<kHalf>(angles + kHalf);
    for (int head = 0; head < kHeads; ++head) {
      Act* low = qkv + static_cast<long long>(row) * kPitch + head * kHeadDim;
      const auto a = g.load<kHalf>(low);
      const auto b = g.load<kHalf>(low + kHalf);
      g.store2(low, low + kHalf,
               [](float u, float v, float c, float s) {
                 const float turn = kInverse ? -s : s;
                 return Two{u * c - v * turn, v * c + u * turn};
               },
               a, b, cosines, sines);
    }
  }
}

}  // namespace llmc
