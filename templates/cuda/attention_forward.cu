// Causal attention of packed q, k, v rows with grouped key and value heads, on tensor cores, with an online softmax:
// Dao 2023 (FlashAttention-2). For sm_80 and later: used where cuDNN has no engine, and to check cuDNN.
//
// A warp owns 32 queries of a head (16 of a wide one). Keys and values pass through shared memory; copies of the next
// ones overlap the products of these. Floor: 2 kSequence^2 kHeadDim FLOPs per head, qkv read once, out and lse written
// once. Each block of queries rereads the keys before it, which the L2 cache holds.
#include "device/cuda/fragments.h"
#include "device/group.h"
#include "device/math.h"
#include "params.h"

namespace llmc {

constexpr int kRowTiles = row_tiles(kHeadDim);
constexpr int kRows = 16 * kRowTiles;             // queries of a warp
constexpr int kQueries = kLanes / 32 * kRows;     // of a block
constexpr int kDim = (kHeadDim + 15) / 16 * 16;   // padded with zeros
constexpr int kStride = kDim + kRowPadding;       // of a row in shared memory
constexpr int kKeys = kHeadDim <= 128 ? 32 : 16;  // at once in shared memory
constexpr int kTiles = (kSequence + kQueries - 1) / kQueries;
constexpr int kSequences = kBatch * kHeads;
constexpr int kGroupHeads = kHeads / kKvHeads;

/// qkv [kBatch * kSequence, kPitch] with rows of q [kHeads, kHeadDim], k and v [kKvHeads, kHeadDim], already rotated;
/// out [kBatch * kSequence, kOutPitch] = softmax(q k^T / sqrt(kHeadDim)) v; lse [kBatch, kHeads, kSequence], natural.
LLMC_TILE_BOUNDS(kLanes, kHeadDim)
LLMC_KERNEL attention_forward(const Act* __restrict__ qkv, Act* __restrict__ out,
                              float* __restrict__ lse LLMC_FURTHER_OPERANDS) {
  __shared__ __align__(16) Act keys[2][kKeys * kStride];
  __shared__ __align__(16) Act values[2][kKeys * kStride];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  // The last queries have the most keys and are scheduled first, so that blocks end together.
  const int task = blockIdx.x, first = (kTiles - 1 - task / kSequences) * kQueries;
  const int end = min(first + kQueries, kSequence), batch = task % kSequences / kHeads, head = task % kHeads;
  const Act* rows = qkv + static_cast<long long>(batch) * kSequence * kPitch;
  const Act* key_rows = rows + (kHeads + head / kGroupHeads) * kHeadDim;
  const int query = first + kRows * warp;  // the warp's first query
  const Act* query_rows = rows + static_cast<long long>(query) * kPitch + head * kHeadDim;

  unsigned queries[kDim / 16][kRowTiles][4];
#pragma unroll
  for (int s = 0; s < kDim / 16; ++s)
    load_fragments<kHeadDim, kPitch>(queries[s], query_rows, 16 * s, kSequence - query);
  float sums[kRowTiles][kDim / 8][4] = {};  // of exp(score - highest) * value
  float highest[kRowTiles][2], total[kRowTiles][2] = {};
#pragma unroll
  for (int half = 0; half < 2 * kRowTiles; ++half) highest[half / 2][half % 2] = kNothing;

  [[maybe_unused]] Mask mask = LLMC_MASK;
  // Keys before all_seen are hidden from some of the warp's queries, and those before some_seen from all.
  [[maybe_unused]] int first_key = 0, some_seen = 0, all_seen = 0;
  if constexpr (kBounded)
    first_key = mask.first_tile(first, kKeys), some_seen = mask.lo(query), all_seen = mask.lo(query + kRows - 1);
  // The first iteration has no keys yet and only starts the copies.
  for (int key = -kKeys, buffer = 1; key < end; key += kKeys, buffer ^= 1) {
    if constexpr (kBounded) key = max(key, first_key - kKeys);
    wait_for_copies();
    __syncthreads();  // all copies have arrived, and all warps are done with the other buffer
    if (key + kKeys < end) {
      const Act* from = key_rows + static_cast<long long>(key + kKeys) * kPitch;
      const int count = kSequence - key - kKeys;
      copy_tile<kLanes, kKeys, kHeadDim, kDim, kPitch>(keys[buffer ^ 1], from, count);
      copy_tile<kLanes, kKeys, kHeadDim, kDim, kPitch>(values[buffer ^ 1], from + kKvHeads * kHeadDim, count);
    }
    if (key < 0 || key >= query + kRows || query >= kSequence) continue;
    if constexpr (kBounded) {
      if (key + kKeys <= some_seen) continue;
    }

    float scores[kKeys / 8][kRowTiles][4] = {}, top[kRowTiles][2];
#pragma unroll
    for (int half = 0; half < 2 * kRowTiles; ++half) top[half / 2][half % 2] = highest[half / 2][half % 2];
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
      multiply_rows<kStride>(scores[n], queries, keys[buffer] + 8 * n * kStride);
      if constexpr (kSoftcap > 0) soft_cap(scores[n], kSoftcap / kScale);
      if (key + 8 * n + 7 > query) mask_later<false>(scores[n], query, key + 8 * n);
      if constexpr (kBounded) {
        if (key + 8 * n < all_seen) mask_earlier<false>(scores[n], query, key + 8 * n, mask);
      }
#pragma unroll
      for (int i = 0; i < 4 * kRowTiles; ++i)
        top[i / 4][i / 2 % 2] = max(top[i / 4][i / 2 % 2], scores[n][i / 4][i % 4]);
    }
#pragma unroll
    for (int half = 0; half < 2 * kRowTiles; ++half) {
      const int m = half / 2, h = half % 2;
      top[m][h] = max_of_row(top[m][h]);
      const float shrink = exp2_approx((highest[m][h] - top[m][h]) * (kScale * kLog2e));
      highest[m][h] = top[m][h];
      top[m][h] *= kScale * kLog2e;
      total[m][h] *= shrink;
#pragma unroll
      for (int i = 0; i < kDim / 4; ++i) sums[m][i / 2][2 * h + i % 2] *= shrink;
    }
#pragma unroll
    for (int n = 0; n < kKeys / 8; n += 2) {
      unsigned weights[kRowTiles][4];
#pragma unroll
      for (int i = 0; i < 8 * kRowTiles; ++i) {
        const int m = i / 4 % kRowTiles, h = i / 2 % 2;
        float& score = scores[n + i / (4 * kRowTiles)][m][i % 4];
        score = exp2_approx(fma(score, kScale * kLog2e, -top[m][h]));
        total[m][h] += score;
      }
      round_columns<Act>(weights, scores[n], 0);
      round_columns<Act>(weights, scores[n + 1], 1);
      multiply_columns<kStride>(sums, weights, values[buffer] + 8 * n * kStride);
    }
  }

  float* line = lse + (static_cast<long long>(batch) * kHeads + head) * kSequence;
#pragma unroll
  for (int half = 0; half < 2 * kRowTiles; ++half) {
    float& sum = total[half / 2][half % 2];
    sum = sum_of_row(sum);
    const int row = query + lane / 4 + half * 8;
    if (lane % 4 == 0 && row < kSequence) line[row] = highest[half / 2][half % 2] * kScale + log(sum);
    sum = 1.0f / sum;
  }
  Act* result = out + (static_cast<long long>(batch) * kSequence + query) * kOutPitch + head * kHeadDim;
  store_result<kHeadDim, kOutPitch>(sums, total, result, 0, kSequence - query);
}

}  // namespace llmc
