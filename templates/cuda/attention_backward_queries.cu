// Gradient of attention_forward with respect to the queries, and delta = dot(dout, out) of each query for
// attention_backward_keys. Recomputes P = exp(score - lse); dS = P * (dout v^T - delta); dq = dS k / sqrt(kHeadDim).
//
// A warp owns 32 queries of a head (16 of a wide one), and of heads wider than 128 half of their columns of dq. Keys
// and values pass through shared memory; copies of the next ones overlap the products of these. There are no atomic
// sums, so equal runs give equal bits. Floor: 3 kSequence^2 kHeadDim FLOPs per head; qkv, dout, out and lse read once,
// dq and delta written once.
#include "device/cuda/fragments.h"
#include "device/group.h"
#include "device/math.h"
#include "params.h"

namespace llmc {

constexpr int kRowTiles = row_tiles(kHeadDim);
constexpr int kRows = 16 * kRowTiles;            // queries of a warp
constexpr int kQueries = kLanes / 32 * kRows;    // of a block
constexpr int kParts = kHeadDim <= 128 ? 1 : 2;  // blocks that share the columns of dq
constexpr int kPart = (kHeadDim + 16 * kParts - 1) / (16 * kParts) * 16;
constexpr int kDim = kPart * kParts;                                    // padded with zeros
constexpr int kStride = kDim + kRowPadding;                             // of a row in shared memory
constexpr int kKeys = kHeadDim <= 64 ? 64 : kHeadDim <= 128 ? 32 : 16;  // at once in shared memory
constexpr int kTiles = (kSequence + kQueries - 1) / kQueries;
constexpr int kSequences = kBatch * kHeads * kParts;
constexpr int kGroupHeads = kHeads / kKvHeads;

/// dout, out [kBatch * kSequence, kOutPitch]; qkv, dqkv [kBatch * kSequence, kPitch]: dq is written; lse, delta
/// [kBatch, kHeads, kSequence].
LLMC_TILE_BOUNDS(kLanes, kHeadDim)
LLMC_KERNEL attention_backward_queries(const Act* __restrict__ dout, const Act* __restrict__ out,
                                       const Act* __restrict__ qkv, const float* __restrict__ lse,
                                       Act* __restrict__ dqkv, float* __restrict__ delta LLMC_FURTHER_OPERANDS) {
  __shared__ __align__(16) Act keys[2][kKeys * kStride];
  __shared__ __align__(16) Act values[2][kKeys * kStride];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  // The last queries have the most keys and are scheduled first, so that blocks end together.
  const int task = blockIdx.x;
  const int first = (kTiles - 1 - task / kSequences) * kQueries, end = min(first + kQueries, kSequence);
  const int part = task % kParts, head = task / kParts % kHeads, batch = task % kSequences / (kParts * kHeads);
  const long long row = static_cast<long long>(batch) * kSequence;
  const Act* key_rows = qkv + row * kPitch + (kHeads + head / kGroupHeads) * kHeadDim;
  const auto begin_copies = [&](int buffer, int key) {
    const Act* from = key_rows + static_cast<long long>(key) * kPitch;
    copy_tile<kLanes, kKeys, kHeadDim, kDim, kPitch>(keys[buffer], from, kSequence - key);
    copy_tile<kLanes, kKeys, kHeadDim, kDim, kPitch>(values[buffer], from + kKvHeads * kHeadDim, kSequence - key);
  };
  const int query = first + kRows * warp, count = kSequence - query;  // the warp's first, queries from there on
  const long long out_row = (row + query) * kOutPitch + head * kHeadDim;
  unsigned queries[kDim / 16][kRowTiles][4], gradients[kDim / 16][kRowTiles][4];
  float row_delta[kRowTiles][2] = {};  // dot(dout, out)
#pragma unroll
  for (int s = 0; s < kDim / 16; ++s) {
    load_fragments<kHeadDim, kPitch>(queries[s], qkv + (row + query) * kPitch + head * kHeadDim, 16 * s, count);
    load_fragments<kHeadDim, kOutPitch>(gradients[s], dout + out_row, 16 * s, count);
    unsigned outs[kRowTiles][4];
    load_fragments<kHeadDim, kOutPitch>(outs, out + out_row, 16 * s, count);
    add_products<Act>(row_delta, gradients[s], outs);
  }
  const long long line = (static_cast<long long>(batch) * kHeads + head) * kSequence + query;
  float row_lse[kRowTiles][2];
#pragma unroll
  for (int half = 0; half < 2 * kRowTiles; ++half) {
    const int at = lane / 4 + half * 8;
    float& sum = row_delta[half / 2][half % 2];
    sum = sum_of_row(sum);
    row_lse[half / 2][half % 2] = at < count ? lse[line + at] * kLog2e : 0.0f;
    if (part == 0 && lane % 4 == 0 && at < count) delta[line + at] = sum;
  }

  float dq[kRowTiles][kPart / 8][4] = {};
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
    if (key + kKeys < end) begin_copies(buffer ^ 1, key + kKeys);
    for (int step = key < 0 || count <= 0 ? kKeys : 0; step < kKeys && key + step < query + kRows; step += 16) {
      if constexpr (kBounded) {
        if (key + step + 16 <= some_seen) continue;
      }
      unsigned weights[kRowTiles][4];
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const int at = step + 8 * n;
        float scores[kRowTiles][4] = {}, dscores[kRowTiles][4] = {};
        multiply_rows<kStride>(scores, queries, keys[buffer] + at * kStride);
        if constexpr (kSoftcap > 0) soft_cap(scores, kSoftcap / kScale);
        multiply_rows<kStride>(dscores, gradients, values[buffer] + at * kStride);
        if (key + at + 7 > query) mask_later<false>(scores, query, key + at);
        if constexpr (kBounded) {
          if (key + at < all_seen) mask_earlier<false>(scores, query, key + at, mask);
        }
#pragma unroll
        for (int i = 0; i < 4 * kRowTiles; ++i) {
          const int m = i / 4, half = i / 2 % 2;
          const float p = exp2_approx(fma(scores[m][i % 4], kScale * kLog2e, -row_lse[m][half]));
          dscores[m][i % 4] = p * (dscores[m][i % 4] - row_delta[m][half]);
          if constexpr (kSoftcap > 0) dscores[m][i % 4] *= soft_cap_slope(scores[m][i % 4], kSoftcap / kScale);
        }
        round_columns<Act>(weights, dscores, n);
      }
      multiply_columns<kStride>(dq, weights, keys[buffer] + step * kStride + part * kPart);
    }
  }
  store_result<kHeadDim, kPitch>(dq, kScale, dqkv + (row + query) * kPitch + head * kHeadDim, part * kPart, count);
}

}  // namespace llmc
