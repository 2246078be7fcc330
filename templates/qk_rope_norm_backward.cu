// qk_rope_norm_backward: in place, differentiates the norm of each rotated head of q and k, and the rotation. With t
// the rotated head, b = dy * weight rotated back, and f the factor of the angles, dx = rstd * (b - x * f^2 rstd^2
// mean(b x)). dweight = sum over rows and heads of dy * t * rstd, as one partial sum for each block of rows. Heads of v
// are unchanged. With kUnrotated the angles are 0.
#include "device/group.h"
#include "params.h"

namespace llmc {

constexpr int kHalf = kHeadDim / 2;
constexpr int kNormed = kHeads + kKvHeads;

/// dqkv, x [kRows, kPitch]: heads of q, of k and of v, kHeadDim columns each; weight [2, kWeightPitch]: q's and k's;
/// table [kSequence, kHeadDim]: kHalf cosines, kHalf sines, position = row % kSequence, or in its document with
/// kResets; rstd [kRows, kNormed]; dweight_partial [kBlocks, 2, kWeightPitch].
LLMC_BOUNDS_RESIDENT(kLanes, 512)
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
      const float square = kUnrotated ? 1.0f : angles[0] * angles[0] + angles[kHalf] * angles[kHalf];
      const auto x1 = lanes.load(lanes.row<kHalf>(in, 2 * head)), x2 = lanes.load(lanes.row<kHalf>(in, 2 * head + 1));
      const auto dx1 = lanes.row<kHalf>(gradients, 2 * head), dx2 = lanes.row<kHalf>(gradients, 2 * head + 1);
      const float r = rstd[static_cast<long long>(row) * kNormed + head];
      // The rotation by minus the angle first, of dy * weight: the sums are the same, but for the factor of the angles.
      auto b1 = lanes.columns<kHalf>(), b2 = lanes.columns<kHalf>();
      lanes.map(dweight1, dweight2, b1, b2, lanes.load(dx1), lanes.load(dx2), x1, x2, w1, w2, cosine, sine,
                [=](float& sum1, float& sum2, float& back1, float& back2, float dy1, float dy2, float v1, float v2,
                    float u1, float u2, float c, float s) {
                  if constexpr (kOnePlus) u1 += 1.0f, u2 += 1.0f;
                  if constexpr (kUnrotated) c = 1.0f, s = 0.0f;
                  sum1 += dy1 * ((v1 * c - v2 * s) * r);
                  sum2 += dy2 * ((v2 * c + v1 * s) * r);
                  back1 = dy1 * u1 * c + dy2 * u2 * s;
                  back2 = dy2 * u2 * c - dy1 * u1 * s;
                });
      const float dot = lanes.sum(b1, b2, x1, x2,
                                  [](float back1, float back2, float v1, float v2) { return back1 * v1 + back2 * v2; });
      const float pull = dot / kHeadDim * r * r * square;
      const auto gradient = [=](float back, float v) { return r * (back - v * pull); };
      lanes.store(dx1, b1, x1, gradient);
      lanes.store(dx2, b2, x2, gradient);
    }
    if constexpr (!kUnweighted) {
      float* out = dweight_partial + static_cast<long long>(sums) * kWeightPitch;
      lanes.store_shared(lanes.row<kHalf>(out), dweight1);
      lanes.store_shared(lanes.row<kHalf, kWeightPitch - kHalf>(out + kHalf, 0), dweight2);
    }
  }
}

}  // namespace llmc
