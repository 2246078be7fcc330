// Causal attention of packed q, k, v rows with grouped key and value heads, on tensor cores, with an online softmax:
// Dao 2023 (FlashAttention-2). For sm_80 and later; where cuDNN has no engine, and to check it by.
//
// A warp has 16 queries of a head, a block kLanes / 2; keys and values pass through shared memory. Floor: 2 kSequence^2
// kHeadDim FLOPs a head, qkv read once, out and lse written once; each block of queries reads the keys before it again,
// which the L2 cache holds.
#include "device/cuda/fragments.h"
#include "device/group.h"
#include "device/math.h"
#include "params.h"

namespace llmc {

constexpr int kQueries = kLanes / 2;             // of a block: 16 for each warp
constexpr int kDim = (kHeadDim + 15) / 16 * 16;  // padded with zeros
constexpr int kStride = kDim + kRowPadding;      // of a row in shared memory
constexpr int kKeys = 32;                        // at once in shared memory
constexpr int kTiles = (kSequence + kQueries - 1) / kQueries;
constexpr int kSequences = kBatch * kHeads;
constexpr int kGroupHeads = kHeads / kKvHeads;
constexpr float kNothing = -1e30f;  // the score of a key that lies after the query

/// qkv [kBatch * kSequence, kPitch], its rows q [kHeads, kHeadDim], k and v [kKvHeads, kHeadDim], rotated already;
/// out [kBatch * kSequence, kOutPitch] = softmax(q k^T / sqrt(kHeadDim)) v; lse [kBatch, kHeads, kSequence], natural.
LLMC_TILE_BOUNDS(kLanes, kHeadDim)
LLMC_KERNEL attention_forward(const bf16* __restrict__ qkv, bf16* __restrict__ out, float* __restrict__ lse) {
  __shared__ __align__(16) bf16 keys[kKeys * kStride];
  __shared__ __align__(16) bf16 values[kKeys * kStride];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  // The last queries have the most keys: they come first, so that blocks end together.
  for (int task = blockIdx.x; task < kTiles * kSequences; task += gridDim.x) {
    const int first = (kTiles - 1 - task / kSequences) * kQueries;
    const int batch = task % kSequences / kHeads, head = task % kHeads;
    const bf16* rows = qkv + static_cast<long long>(batch) * kSequence * kPitch;
    const bf16* key_rows = rows + (kHeads + head / kGroupHeads) * kHeadDim;
    const bf16* value_rows = key_rows + kKvHeads * kHeadDim;
    const int query = first + 16 * warp;  // the warp's first
    const bf16* query_rows = rows + static_cast<long long>(query) * kPitch + head * kHeadDim;

    unsigned queries[kDim / 16][4];
#pragma unroll
    for (int s = 0; s < kDim / 16; ++s)
      load_fragment<kHeadDim, kPitch>(queries[s], query_rows, 16 * s, kSequence - query);
    float sums[kDim / 8][4] = {};  // of exp(score - highest) * value
    float highest[2] = {kNothing, kNothing}, total[2] = {};

    for (int key = 0; key < min(first + kQueries, kSequence); key += kKeys) {
      __syncthreads();  // all warps are done with the keys before
      load_tile<kLanes, kKeys, kHeadDim, kDim, kPitch>(keys, key_rows + static_cast<long long>(key) * kPitch,
                                                       kSequence - key);
      load_tile<kLanes, kKeys, kHeadDim, kDim, kPitch>(values, value_rows + static_cast<long long>(key) * kPitch,
                                                       kSequence - key);
      __syncthreads();
      if (key >= query + 16) continue;

      float scores[kKeys / 8][4] = {};
#pragma unroll
      for (int s = 0; s < kDim / 16; ++s) multiply_rows<kStride>(scores, queries[s], keys + 16 * s);
      float top[2] = {highest[0], highest[1]};
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const bool later = key + n * 8 + lane % 4 * 2 + i % 2 > query + lane / 4 + i / 2 * 8;
          scores[n][i] = later ? kNothing : scores[n][i] * kScale;
          top[i / 2] = max(top[i / 2], scores[n][i]);
        }
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        top[half] = max_of_row(top[half]);
        const float shrink = exp(highest[half] - top[half]);
        highest[half] = top[half];
        total[half] *= shrink;
#pragma unroll
        for (int n = 0; n < kDim / 8; ++n) {
          sums[n][2 * half] *= shrink;
          sums[n][2 * half + 1] *= shrink;
        }
      }
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          scores[n][i] = exp(scores[n][i] - top[i / 2]);
          total[i / 2] += scores[n][i];
        }
      }
#pragma unroll
      for (int s = 0; s < kKeys / 16; ++s) {
        unsigned weights[4];
        round_fragment(weights, scores, s);
        multiply_columns<kStride>(sums, weights, values + 16 * s * kStride);
      }
    }

    float inverse[2];
    float* line = lse + (static_cast<long long>(batch) * kHeads + head) * kSequence;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      total[half] = sum_of_row(total[half]);
      inverse[half] = 1.0f / total[half];
      const int row = query + lane / 4 + half * 8;
      if (lane % 4 == 0 && row < kSequence) line[row] = highest[half] + log(total[half]);
    }
    bf16* result = out + (static_cast<long long>(batch) * kSequence + query) * kOutPitch + head * kHeadDim;
    store_result<kHeadDim, kOutPitch>(sums, inverse, result, 0, kSequence - query);
  }
}

}  // namespace llmc
