// qk_rope_norm_backward: in place, differentiates the norm of each rotated head of q and k, then rotates the gradient
// back by its position. With t the rotated head and g = dy * weight, dt = rstd * (g - t * rstd^2 * mean(g * t)).
// dweight = sum over rows and heads of dy * t * rstd, as one partial sum for each block of rows. Heads of v are
// unchanged. With kUnrotated the angles are 0.
#include "device/group.h"
#include "params.h"

namespace llmc {

constexpr int kHalf = kHeadDim / 2;
constexpr int kNormed = kHeads + kKvHeads;

/// dqkv, x [kRows, kPitch]: heads of q, of k and of v, kHeadDim columns each; weight [2, kWeightPitch]: q's and k's;
/// table [kSequence, kHeadDim]: kHalf cosines, kHalf sines, position = row % kSequence, or in its document with
/// kResets; rstd [kRows, kNormed]; dweight_partial [kBlocks, 2, kWeightPitch].
LLMC_BOUNDS_RESIDENT(kLanes, 640)
LLMC_KERNEL qk_rope_norm_backward(Act* __restrict__ dqkv, const Act* __restrict__ x, const float* __restrict__ weight,
                                  const float* __restrict__ table, const float* __restrict__ rstd,
                                  float* __restrict__ dweight_partial LLMC_FURTHER_OPERANDS) {
  const Group<kLanes, Act> lanes;
  for (const int sums : lanes.shared_rows(2 * kBlocks)) {
    const int block = sums / 2, part = sums % 2;  // of q, of k
    const int first = static_cast<int>(block * static_cast<long long>(kRows) / kBlocks);
    const int last = static_cast<int>((block + 1) * static_cast<long long>(kRows) / kBlocks);
    const int count = part == 0 ? kHeads : kKvHeads;
    const float* scale = weight + part * kWeightPitch;
    const auto w1 = lanes.load(lanes.segments<1, kHalf, 0>(scale));
    const auto w2 = lanes.load(lanes.segments<1, kHalf, 0>(scale + kHalf));
    auto dweight1 = lanes.columns<kHalf>(), dweight2 = lanes.columns<kHalf>();
    for (const int pair : lanes.share(0, (last - first) * count)) {
      const int row = first + (part == 0 ? pair / kHeads : pair / kKvHeads);
      const int head = part == 0 ? pair % kHeads : kHeads + pair % kKvHeads;
      const Act* in = x + static_cast<long long>(row) * kPitch;
      Act* gradients = dqkv + static_cast<long long>(row) * kPitch;
      const float* angles = table + row % kSequence * kHeadDim;
      if constexpr (kResets) angles -= document_begin[row] * kHeadDim;
      const auto cosine = lanes.segments<1, kHalf, 0>(angles);
      const auto sine = lanes.segments<1, kHalf, 0>(angles + kHalf);
      const auto x1 = lanes.load(lanes.row<kHalf>(in, 2 * head)), x2 = lanes.load(lanes.row<kHalf>(in, 2 * head + 1));
      const auto dx1 = lanes.row<kHalf>(gradients, 2 * head), dx2 = lanes.row<kHalf>(gradients, 2 * head + 1);
      const float r = rstd[static_cast<long long>(row) * kNormed + head];
      auto t1 = lanes.columns<kHalf>(), t2 = lanes.columns<kHalf>();
      lanes.map(t1, t2, x1, x2, cosine, sine, [](float& turned1, float& turned2, float v1, float v2, float c, float s) {
        if constexpr (kUnrotated) c = 1.0f, s = 0.0f;
        turned1 = v1 * c - v2 * s;
        turned2 = v2 * c + v1 * s;
      });
      const auto dy1 = lanes.load(dx1), dy2 = lanes.load(dx2);
      const auto of_weight = [=](float& sum, float d, float v) { sum += d * (v * r); };
      lanes.map(dweight1, dy1, t1, of_weight);
      lanes.map(dweight2, dy2, t2, of_weight);
      const float dot =
          lanes.sum(dy1, dy2, t1, t2, w1, w2, [](float d1, float d2, float v1, float v2, float u1, float u2) {
            if constexpr (kOnePlus) u1 += 1.0f, u2 += 1.0f;
            return d1 * u1 * v1 + d2 * u2 * v2;
          });
      const float pull = dot / kHeadDim * r * r;
      // The gradient of the rotated head replaces it.
      const auto gradient = [=](float& v, float d, float w) {
        if constexpr (kOnePlus) w += 1.0f;
        v = r * (d * w - v * pull);
      };
      lanes.map(t1, dy1, w1, gradient);
      lanes.map(t2, dy2, w2, gradient);
      lanes.map(dx1, dx2, t1, t2, cosine, sine, [](float& back1, float& back2, float dt1, float dt2, float c, float s) {
        if constexpr (kUnrotated) c = 1.0f, s = 0.0f;
        back1 = dt1 * c + dt2 * s;
        back2 = dt2 * c - dt1 * s;
      });
    }
    if constexpr (!kUnweighted) {
      float* out = dweight_partial + static_cast<long long>(sums) * kWeightPitch;
      lanes.store_shared(lanes.row<kHalf>(out), dweight1);
      lanes.store_shared(lanes.row<kHalf, kWeightPitch - kHalf>(out + kHalf, 0), dweight2);
    }
  }
}

}  // namespace llmc
