// The gradient of attention_forward with respect to the queries, and what attention_backward_keys needs of each query:
// delta = dot(dout, out). P = exp(score - lse) is computed again; dS = P * (dout v^T - delta); dq = dS k /
// sqrt(kHeadDim).
//
// A warp has 16 queries of a head and, of heads wider than 128, half of their columns of dq; keys and values pass
// through shared memory. No sums meet in memory, so equal runs give equal bits. Floor: 3 kSequence^2 kHeadDim FLOPs a
// head; qkv, dout, out and lse read once, dq and delta written once.
#include "device/cuda/fragments.h"
#include "device/group.h"
#include "device/math.h"
#include "params.h"

namespace llmc {

constexpr int kQueries = kLanes / 2;             // of a block: 16 for each warp
constexpr int kParts = kHeadDim <= 128 ? 1 : 2;  // blocks that share the columns of dq
constexpr int kPart = (kHeadDim + 16 * kParts - 1) / (16 * kParts) * 16;
constexpr int kDim = kPart * kParts;              // padded with zeros
constexpr int kStride = kDim + kRowPadding;       // of a row in shared memory
constexpr int kKeys = kHeadDim <= 128 ? 32 : 16;  // at once in shared memory
constexpr int kTiles = (kSequence + kQueries - 1) / kQueries;
constexpr int kSequences = kBatch * kHeads * kParts;
constexpr int kGroupHeads = kHeads / kKvHeads;

/// dout, out [kBatch * kSequence, kOutPitch]; qkv, dqkv [kBatch * kSequence, kPitch]: dq is written; lse, delta
/// [kBatch, kHeads, kSequence].
LLMC_TILE_BOUNDS(kLanes, kHeadDim)
LLMC_KERNEL attention_backward_queries(const bf16* __restrict__ dout, const bf16* __restrict__ out,
                                       const bf16* __restrict__ qkv, const float* __restrict__ lse,
                                       bf16* __restrict__ dqkv, float* __restrict__ delta) {
  __shared__ __align__(16) bf16 keys[kKeys * kStride];
  __shared__ __align__(16) bf16 values[kKeys * kStride];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  // The last queries have the most keys: they come first, so that blocks end together.
  for (int task = blockIdx.x; task < kTiles * kSequences; task += gridDim.x) {
    const int first = (kTiles - 1 - task / kSequences) * kQueries;
    const int part = task % kParts, head = task / kParts % kHeads, batch = task % kSequences / (kParts * kHeads);
    const long long row = static_cast<long long>(batch) * kSequence;
    const bf16* key_rows = qkv + row * kPitch + (kHeads + head / kGroupHeads) * kHeadDim;
    const bf16* value_rows = key_rows + kKvHeads * kHeadDim;
    const int query = first + 16 * warp;  // the warp's first
    const int count = kSequence - query;
    const bf16* query_rows = qkv + (row + query) * kPitch + head * kHeadDim;
    const long long out_row = (row + query) * kOutPitch + head * kHeadDim;

    unsigned queries[kDim / 16][4], gradients[kDim / 16][4];
    float product[2] = {};  // dot(dout, out)
#pragma unroll
    for (int s = 0; s < kDim / 16; ++s) {
      load_fragment<kHeadDim, kPitch>(queries[s], query_rows, 16 * s, count);
      load_fragment<kHeadDim, kOutPitch>(gradients[s], dout + out_row, 16 * s, count);
      unsigned outs[4];
      load_fragment<kHeadDim, kOutPitch>(outs, out + out_row, 16 * s, count);
      float x[8], y[8];
      unpack<bf16>(gradients[s], x);
      unpack<bf16>(outs, y);
#pragma unroll
      for (int e = 0; e < 8; ++e) product[e / 2 % 2] = fma(x[e], y[e], product[e / 2 % 2]);
    }
    const long long line = (static_cast<long long>(batch) * kHeads + head) * kSequence + query;
    float logarithm[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = lane / 4 + half * 8;
      product[half] = sum_of_row(product[half]);
      logarithm[half] = at < count ? lse[line + at] : 0.0f;
      if (part == 0 && lane % 4 == 0 && at < count) delta[line + at] = product[half];
    }

    float dq[kPart / 8][4] = {};
    for (int key = 0; key < min(first + kQueries, kSequence); key += kKeys) {
      __syncthreads();  // all warps are done with the keys before
      load_tile<kLanes, kKeys, kHeadDim, kDim, kPitch>(keys, key_rows + static_cast<long long>(key) * kPitch,
                                                       kSequence - key);
      load_tile<kLanes, kKeys, kHeadDim, kDim, kPitch>(values, value_rows + static_cast<long long>(key) * kPitch,
                                                       kSequence - key);
      __syncthreads();
      if (key >= query + 16) continue;

      float scores[kKeys / 8][4] = {}, dscores[kKeys / 8][4] = {};
#pragma unroll
      for (int s = 0; s < kDim / 16; ++s) {
        multiply_rows<kStride>(scores, queries[s], keys + 16 * s);
        multiply_rows<kStride>(dscores, gradients[s], values + 16 * s);
      }
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const bool later = key + n * 8 + lane % 4 * 2 + i % 2 > query + lane / 4 + i / 2 * 8;
          const float p = later ? 0.0f : exp(scores[n][i] * kScale - logarithm[i / 2]);
          dscores[n][i] = p * (dscores[n][i] - product[i / 2]);
        }
      }
#pragma unroll
      for (int s = 0; s < kKeys / 16; ++s) {
        unsigned weights[4];
        round_fragment(weights, dscores, s);
        multiply_columns<kStride>(dq, weights, keys + 16 * s * kStride + part * kPart);
      }
    }
    const float scale[2] = {kScale, kScale};
    store_result<kHeadDim, kPitch>(dq, scale, dqkv + (row + query) * kPitch + head * kHeadDim, part * kPart, count);
  }
}

}  // namespace llmc
