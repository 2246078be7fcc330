// Causal attention of packed q, k, v rows in fp32 with grouped key and value heads, with an online softmax: Milakov and
// Gimelshein 2018. For audits, which are rare and need fp32: tensor cores do not have it.
//
// A warp owns one query of a head and processes its keys in sequence.
#include "device/group.h"
#include "params.h"

namespace llmc {

/// qkv [kBatch * kSequence, kPitch] with rows of q [kHeads, kHeadDim], k and v [kKvHeads, kHeadDim], already rotated;
/// out [kBatch * kSequence, kOutPitch] = softmax(q k^T / sqrt(kHeadDim)) v; lse [kBatch, kHeads, kSequence], natural.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL attention_forward_rows(const float* __restrict__ qkv, float* __restrict__ out, float* __restrict__ lse) {
  const Group<kLanes> lanes;
  for (const int row : lanes.rows(kBatch * kSequence * kHeads)) {
    const int head = row % kHeads, token = row / kHeads, position = token % kSequence, batch = token / kSequence;
    const auto query = lanes.load(lanes.row<kHeadDim, kHeadDim>(qkv + static_cast<long long>(token) * kPitch, head));
    const float* keys = qkv + static_cast<long long>(batch) * kSequence * kPitch + kHeads * kHeadDim;
    auto sums = lanes.columns<kHeadDim>();
    float highest = -__builtin_huge_valf(), total = 0.0f;
    for (int key = 0; key <= position; ++key, keys += kPitch) {
      if constexpr (kWindow > 0) {
        const int ahead = max(Mask{kSequence, kWindow}.lo(position) - key, 0);
        key += ahead, keys += static_cast<long long>(ahead) * kPitch;
      }
      const int group = head / (kHeads / kKvHeads);
      const auto k = lanes.row<kHeadDim, kHeadDim>(keys, group),
                 v = lanes.row<kHeadDim, kHeadDim>(keys, kKvHeads + group);
      const float score = kScale * lanes.sum(query, k, [](float a, float b) { return a * b; });
      const float most = score > highest ? score : highest;
      const float before = exp(highest - most), power = exp(score - most);
      lanes.map(sums, v, [=](float& sum, float value) { sum = fma(sum, before, power * value); });
      total = fma(total, before, power);
      highest = most;
    }
    lanes.store(lanes.row<kHeadDim, kHeadDim>(out + static_cast<long long>(token) * kOutPitch, head), sums,
                [=](float sum) { return sum / total; });
    if (lanes.leads()) lse[(batch * kHeads + head) * kSequence + position] = highest + log(total);
  }
}

}  // namespace llmc
