// The gradients of attention_forward with respect to keys and values. P = exp(score - lse) is computed again,
// transposed; dS = P * (dout v^T - delta); dv = P^T dout; dk = dS^T q / sqrt(kHeadDim), summed over the heads that
// share the key head, one after the other.
//
// A warp has 16 keys of a key head and, of heads wider than 128, half of their columns; queries and dout pass through
// shared memory. No sums meet in memory, so equal runs give equal bits. Floor: 4 kSequence^2 kHeadDim FLOPs a head;
// qkv, dout, lse and delta read once, dk and dv written once.
#include "device/cuda/fragments.h"
#include "device/group.h"
#include "device/math.h"
#include "params.h"

namespace llmc {

constexpr int kKeys = kLanes / 2;                // of a block: 16 for each warp
constexpr int kParts = kHeadDim <= 128 ? 1 : 2;  // blocks that share the columns of dk and dv
constexpr int kPart = (kHeadDim + 16 * kParts - 1) / (16 * kParts) * 16;
constexpr int kDim = kPart * kParts;                // padded with zeros
constexpr int kStride = kDim + kRowPadding;         // of a row in shared memory
constexpr int kQueries = kHeadDim <= 64 ? 32 : 16;  // at once in shared memory
constexpr int kTiles = (kSequence + kKeys - 1) / kKeys;
constexpr int kSequences = kBatch * kKvHeads * kParts;
constexpr int kGroupHeads = kHeads / kKvHeads;

/// dout [kBatch * kSequence, kOutPitch]; qkv, dqkv [kBatch * kSequence, kPitch]: dk and dv are written; lse, delta
/// [kBatch, kHeads, kSequence].
LLMC_TILE_BOUNDS(kLanes, kHeadDim)
LLMC_KERNEL attention_backward_keys(const bf16* __restrict__ dout, const bf16* __restrict__ qkv,
                                    const float* __restrict__ lse, const float* __restrict__ delta,
                                    bf16* __restrict__ dqkv) {
  __shared__ __align__(16) bf16 keys[kKeys * kStride];
  __shared__ __align__(16) bf16 values[kKeys * kStride];
  __shared__ __align__(16) bf16 queries[kQueries * kStride];
  __shared__ __align__(16) bf16 gradients[kQueries * kStride];
  __shared__ float logarithms[kQueries];
  __shared__ float products[kQueries];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  // The first keys have the most queries, and come first, so that blocks end together.
  for (int task = blockIdx.x; task < kTiles * kSequences; task += gridDim.x) {
    const int first = task / kSequences * kKeys;
    const int part = task % kParts, kv_head = task / kParts % kKvHeads, batch = task % kSequences / (kParts * kKvHeads);
    const long long row = static_cast<long long>(batch) * kSequence;
    const int key = first + 16 * warp;  // the warp's first

    __syncthreads();  // all warps are done with the keys before
    const bf16* key_rows = qkv + (row + first) * kPitch + (kHeads + kv_head) * kHeadDim;
    load_tile<kLanes, kKeys, kHeadDim, kDim, kPitch>(keys, key_rows, kSequence - first);
    load_tile<kLanes, kKeys, kHeadDim, kDim, kPitch>(values, key_rows + kKvHeads * kHeadDim, kSequence - first);

    float dk[kPart / 8][4] = {}, dv[kPart / 8][4] = {};
    for (int head = kv_head * kGroupHeads; head < (kv_head + 1) * kGroupHeads; ++head) {
      const long long line = (static_cast<long long>(batch) * kHeads + head) * kSequence;
      for (int query = first; query < kSequence; query += kQueries) {
        __syncthreads();  // all warps are done with the queries before
        load_tile<kLanes, kQueries, kHeadDim, kDim, kPitch>(queries, qkv + (row + query) * kPitch + head * kHeadDim,
                                                            kSequence - query);
        load_tile<kLanes, kQueries, kHeadDim, kDim, kOutPitch>(
            gradients, dout + (row + query) * kOutPitch + head * kHeadDim, kSequence - query);
        for (int i = threadIdx.x; i < kQueries; i += kLanes) {
          logarithms[i] = query + i < kSequence ? lse[line + query + i] : 0.0f;
          products[i] = query + i < kSequence ? delta[line + query + i] : 0.0f;
        }
        __syncthreads();
        if (key >= query + kQueries) continue;

        float scores[kQueries / 8][4] = {}, dscores[kQueries / 8][4] = {};  // [keys, queries]
#pragma unroll
        for (int s = 0; s < kDim / 16; ++s) {
          unsigned rows[4];
          load_fragment<kStride>(rows, keys + 16 * warp * kStride + 16 * s);
          multiply_rows<kStride>(scores, rows, queries + 16 * s);
          load_fragment<kStride>(rows, values + 16 * warp * kStride + 16 * s);
          multiply_rows<kStride>(dscores, rows, gradients + 16 * s);
        }
#pragma unroll
        for (int n = 0; n < kQueries / 8; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int at = n * 8 + lane % 4 * 2 + i % 2;  // among the queries
            const bool later = key + lane / 4 + i / 2 * 8 > query + at;
            scores[n][i] = later ? 0.0f : exp(scores[n][i] * kScale - logarithms[at]);
            dscores[n][i] = scores[n][i] * (dscores[n][i] - products[at]);
          }
        }
#pragma unroll
        for (int s = 0; s < kQueries / 16; ++s) {
          unsigned weights[4];
          round_fragment(weights, scores, s);
          multiply_columns<kStride>(dv, weights, gradients + 16 * s * kStride + part * kPart);
          round_fragment(weights, dscores, s);
          multiply_columns<kStride>(dk, weights, queries + 16 * s * kStride + part * kPart);
        }
      }
    }
    bf16* key_gradients = dqkv + (row + key) * kPitch + (kHeads + kv_head) * kHeadDim;
    const float one[2] = {1.0f, 1.0f}, scale[2] = {kScale, kScale};
    store_result<kHeadDim, kPitch>(dk, scale, key_gradients, part * kPart, kSequence - key);
    store_result<kHeadDim, kPitch>(dv, one, key_gradients + kKvHeads * kHeadDim, part * kPart, kSequence - key);
  }
}

}  // namespace llmc
