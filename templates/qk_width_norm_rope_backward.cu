// qk_width_norm_rope_backward: in place, rotates the gradient of each head of q and k back by its position, then
// differentiates the norms of q and of k. With d the rotated gradient and g = d * weight, dx = rstd * (g - x * rstd^2 *
// mean(g * x)). dweight = sum over rows of d * x * rstd, as one partial sum for each block of rows. Heads of v are
// unchanged. With kUnrotated the angles are 0.
#include "device/group.h"
#include "params.h"

namespace llmc {

constexpr int kHalf = kHeadDim / 2;
constexpr int kNormed = kHeads + kKvHeads;

template <int kCount>
struct HeadCount {
  static constexpr int kOwn = kCount;
};

/// dqkv, x [kRows, kPitch]: heads of q, of k and of v, kHeadDim columns each; weight: one for each column of q and k;
/// table [kSequence, kHeadDim]: kHalf cosines, kHalf sines, position = row % kSequence, or in its document with
/// kResets; rstd [kRows, 2]: q's and k's; dweight_partial [kBlocks, columns of q and k].
LLMC_BOUNDS_RESIDENT(kLanes, 512)
LLMC_KERNEL qk_width_norm_rope_backward(Act* __restrict__ dqkv, const Act* __restrict__ x,
                                        const float* __restrict__ weight, const float* __restrict__ table,
                                        const float* __restrict__ rstd,
                                        float* __restrict__ dweight_partial LLMC_FURTHER_OPERANDS) {
  const Group<kLanes, Act> lanes;
  for (const int sums : lanes.rows(2 * kBlocks)) {
    const int block = sums / 2, part = sums % 2;  // of q, of k
    const auto add_up = [&](auto count, int head) {
      constexpr int kOwn = decltype(count)::kOwn;
      const int first = static_cast<int>(block * static_cast<long long>(kRows) / kBlocks);
      const int last = static_cast<int>((block + 1) * static_cast<long long>(kRows) / kBlocks);
      const float* scale = weight + head * kHeadDim;
      const auto w1 = lanes.template segments<kOwn, kHalf, kHeadDim>(scale);
      const auto w2 = lanes.template segments<kOwn, kHalf, kHeadDim>(scale + kHalf);
      auto dweight1 = lanes.template columns<kOwn, kHalf, float>();
      auto dweight2 = lanes.template columns<kOwn, kHalf, float>();
      for (int row = first; row < last; ++row) {
        const long long at = static_cast<long long>(row) * kPitch + head * kHeadDim;
        const float* angles = table + row % kSequence * kHeadDim;
        if constexpr (kResets) angles -= document_begin[row] * kHeadDim;
        const auto cosine = lanes.template segments<kOwn, kHalf, 0>(angles);
        const auto sine = lanes.template segments<kOwn, kHalf, 0>(angles + kHalf);
        const auto x1 = lanes.load(lanes.template segments<kOwn, kHalf, kHeadDim>(x + at));
        const auto x2 = lanes.load(lanes.template segments<kOwn, kHalf, kHeadDim>(x + at + kHalf));
        const auto dx1 = lanes.template segments<kOwn, kHalf, kHeadDim>(dqkv + at);
        const auto dx2 = lanes.template segments<kOwn, kHalf, kHeadDim>(dqkv + at + kHalf);
        const float r = rstd[2ll * row + part];
        auto d1 = lanes.template columns<kOwn, kHalf, float>(), d2 = lanes.template columns<kOwn, kHalf, float>();
        lanes.map(d1, d2, lanes.load(dx1), lanes.load(dx2), cosine, sine,
                  [](float& back1, float& back2, float dy1, float dy2, float c, float s) {
                    if constexpr (kUnrotated) c = 1.0f, s = 0.0f;
                    back1 = dy1 * c + dy2 * s;
                    back2 = dy2 * c - dy1 * s;
                  });
        lanes.map(dweight1, dweight2, lanes.load(d1), lanes.load(d2), x1, x2,
                  [=](float& sum1, float& sum2, float back1, float back2, float v1, float v2) {
                    sum1 += back1 * (v1 * r);
                    sum2 += back2 * (v2 * r);
                  });
        const float dot = lanes.sum(lanes.load(d1), lanes.load(d2), x1, x2, w1, w2,
                                    [](float back1, float back2, float v1, float v2, float u1, float u2) {
                                      if constexpr (kOnePlus) u1 += 1.0f, u2 += 1.0f;
                                      return back1 * u1 * v1 + back2 * u2 * v2;
                                    });
        const float pull = dot / (kOwn * kHeadDim) * r * r;
        const auto gradient = [=](float back, float v, float w) {
          if constexpr (kOnePlus) w += 1.0f;
          return r * (back * w - v * pull);
        };
        lanes.store(dx1, lanes.load(d1), x1, w1, gradient);
        lanes.store(dx2, lanes.load(d2), x2, w2, gradient);
      }
      if constexpr (!kUnweighted) {
        float* out = dweight_partial + block * static_cast<long long>(kNormed * kHeadDim) + head * kHeadDim;
        const auto same = [](float sum) { return sum; };
        lanes.store(lanes.template segments<kOwn, kHalf, kHeadDim>(out), lanes.load(dweight1), same);
        lanes.store(lanes.template segments<kOwn, kHalf, kHeadDim>(out + kHalf), lanes.load(dweight2), same);
      }
    };
    if (part == 0)
      add_up(HeadCount<kHeads>(), 0);
    else
      add_up(HeadCount<kKvHeads>(), kHeads);
  }
}

}  // namespace llmc
