// qk_rope_norm: rotates each head of q and k by its position as in RoPE, divides it by its root mean square, and scales
// it by the weight of q's or k's heads. With t1 = x1 cos - x2 sin and t2 = x2 cos + x1 sin, y = t * rstd * weight.
// Heads of v are copied. With kUnrotated the angles are 0.
#include "device/group.h"
#include "params.h"

namespace llmc {

constexpr int kHalf = kHeadDim / 2;
constexpr int kNormed = kHeads + kKvHeads;
constexpr int kAll = kNormed + kKvHeads;
constexpr int kPadding = kPitch - kAll * kHeadDim;

/// in, out [kRows, kPitch]: heads of q, of k and of v, kHeadDim columns each; weight [2, kWeightPitch]: q's and k's;
/// table [kSequence, kHeadDim]: kHalf cosines, kHalf sines, position = row % kSequence, or in its document with
/// kResets; rstd [kRows, kNormed].
LLMC_BOUNDS(kLanes)
LLMC_KERNEL qk_rope_norm(const Act* __restrict__ in, const float* __restrict__ weight, const float* __restrict__ table,
                         Act* __restrict__ out, float* __restrict__ rstd LLMC_FURTHER_OPERANDS) {
  const Group<kLanes, Act> lanes;
  for (const int row : lanes.shared_rows(kRows)) {
    const Act* from = in + static_cast<long long>(row) * kPitch;
    Act* to = out + static_cast<long long>(row) * kPitch;
    const float* angles = table + row % kSequence * kHeadDim;
    if constexpr (kResets) angles -= document_begin[row] * kHeadDim;
    const auto cosine = lanes.segments<1, kHalf, 0>(angles);
    const auto sine = lanes.segments<1, kHalf, 0>(angles + kHalf);
    for (const int head : lanes.share(0, kAll)) {
      // Halves of heads are rows: as parts of heads the second ones would be taken to be as aligned as the first.
      const auto x1 = lanes.load(lanes.row<kHalf>(from, 2 * head)),
                 x2 = lanes.load(lanes.row<kHalf>(from, 2 * head + 1));
      const auto y1 = lanes.row<kHalf>(to, 2 * head), y2 = lanes.row<kHalf>(to, 2 * head + 1);
      if (head < kNormed) {
        const float* scale = head < kHeads ? weight : weight + kWeightPitch;
        const auto w1 = lanes.segments<1, kHalf, 0>(scale);
        const auto w2 = lanes.segments<1, kHalf, 0>(scale + kHalf);
        // A rotation keeps the sum of squares, but for the factor that all cosines and sines have.
        const float squares = lanes.sum(x1, x2, [](float v1, float v2) { return v1 * v1 + v2 * v2; });
        const float square = kUnrotated ? 1.0f : angles[0] * angles[0] + angles[kHalf] * angles[kHalf];
        const float r = 1.0f / sqrt(squares * square / kHeadDim + kEps);
        lanes.map(y1, y2, x1, x2, w1, w2, cosine, sine,
                  [=](float& n1, float& n2, float v1, float v2, float u1, float u2, float c, float s) {
                    if constexpr (kOnePlus) u1 += 1.0f, u2 += 1.0f;
                    if constexpr (kUnrotated) c = 1.0f, s = 0.0f;
                    n1 = (v1 * c - v2 * s) * r * u1;
                    n2 = (v2 * c + v1 * s) * r * u2;
                  });
        if (lanes.leads()) rstd[static_cast<long long>(row) * kNormed + head] = r;
      } else {
        lanes.map(y1, y2, x1, x2, [](float& a, float& b, float v1, float v2) { a = v1, b = v2; });
      }
      if constexpr (kPadding > 0) {
        if (head == kAll - 1)
          lanes.map(lanes.segments<1, kPadding, 0>(to + kAll * kHeadDim), [](float& v) { v = 0.0f; });
      }
    }
  }
}

}  // namespace llmc
