// qk_width_norm_rope: divides all columns of q, and all of k, by their root mean square, scales each by its weight, and
// rotates each head by its position as in RoPE. With n = x * rstd * weight, pair i of a head becomes (n1 cos - n2 sin,
// n2 cos + n1 sin). Heads of v are copied. With kUnrotated the angles are 0.
#include "device/group.h"
#include "params.h"

namespace llmc {

constexpr int kHalf = kHeadDim / 2;
constexpr int kNormed = kHeads + kKvHeads;
constexpr int kPadding = kPitch - (kNormed + kKvHeads) * kHeadDim;

template <int kCount>
struct HeadCount {
  static constexpr int kOwn = kCount;
};

/// in, out [kRows, kPitch]: heads of q, of k and of v, kHeadDim columns each; weight: one for each column of q and k;
/// table [kSequence, kHeadDim]: kHalf cosines, kHalf sines, position = row % kSequence, or in its document with
/// kResets; rstd [kRows, 2]: q's and k's.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL qk_width_norm_rope(const Act* __restrict__ in, const float* __restrict__ weight,
                               const float* __restrict__ table, Act* __restrict__ out,
                               float* __restrict__ rstd LLMC_FURTHER_OPERANDS) {
  const Group<kLanes, Act> lanes;
  for (const int row : lanes.rows(kRows)) {
    const float* angles = table + row % kSequence * kHeadDim;
    if constexpr (kResets) angles -= document_begin[row] * kHeadDim;
    const auto turn = [&](auto count, int first, float* r_of_row) {
      constexpr int kOwn = decltype(count)::kOwn;
      const Act* from = in + static_cast<long long>(row) * kPitch + first * kHeadDim;
      Act* to = out + static_cast<long long>(row) * kPitch + first * kHeadDim;
      const float* scale = weight + first * kHeadDim;
      const auto x1 = lanes.load(lanes.template segments<kOwn, kHalf, kHeadDim>(from));
      const auto x2 = lanes.load(lanes.template segments<kOwn, kHalf, kHeadDim>(from + kHalf));
      const auto w1 = lanes.template segments<kOwn, kHalf, kHeadDim>(scale);
      const auto w2 = lanes.template segments<kOwn, kHalf, kHeadDim>(scale + kHalf);
      const auto cosine = lanes.template segments<kOwn, kHalf, 0>(angles);
      const auto sine = lanes.template segments<kOwn, kHalf, 0>(angles + kHalf);
      const float squares = lanes.sum(x1, x2, [](float v1, float v2) { return v1 * v1 + v2 * v2; });
      const float r = 1.0f / sqrt(squares / (kOwn * kHeadDim) + kEps);
      lanes.map(lanes.template segments<kOwn, kHalf, kHeadDim>(to),
                lanes.template segments<kOwn, kHalf, kHeadDim>(to + kHalf), x1, x2, w1, w2, cosine, sine,
                [=](float& turned1, float& turned2, float v1, float v2, float u1, float u2, float c, float s) {
                  if constexpr (kOnePlus) u1 += 1.0f, u2 += 1.0f;
                  if constexpr (kUnrotated) c = 1.0f, s = 0.0f;
                  const float n1 = v1 * r * u1, n2 = v2 * r * u2;
                  turned1 = n1 * c - n2 * s;
                  turned2 = n2 * c + n1 * s;
                });
      if (lanes.leads()) *r_of_row = r;
    };
    turn(HeadCount<kHeads>(), 0, rstd + 2ll * row);
    turn(HeadCount<kKvHeads>(), kHeads, rstd + 2ll * row + 1);
    const long long values = static_cast<long long>(row) * kPitch + kNormed * kHeadDim;
    lanes.store(lanes.segments<kKvHeads, kHeadDim, kHeadDim>(out + values),
                lanes.segments<kKvHeads, kHeadDim, kHeadDim>(in + values), [](float v) { return v; });
    if constexpr (kPadding > 0) {
      lanes.map(lanes.segments<1, kPadding, 0>(out + values + kKvHeads * kHeadDim), [](float& v) { v = 0.0f; });
    }
  }
}

}  // namespace llmc
