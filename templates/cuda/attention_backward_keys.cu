// Gradients of attention_forward with respect to keys and values. Recomputes P = exp(score - lse), transposed; dS = P *
// (dout v^T - delta); dv = P^T dout; dk = dS^T q / sqrt(kHeadDim), summed over the heads that share the key head, one
// after the other.
//
// A warp owns 32 keys of a key head (16 of a wide one), and of heads wider than 128 a quarter of their columns. Queries
// and dout pass through shared memory; copies of the next ones overlap the products of these. There are no atomic sums,
// so equal runs give equal bits. Floor: 4 kSequence^2 kHeadDim FLOPs per head; qkv, dout, lse and delta read once, dk
// and dv written once.
#include "device/cuda/fragments.h"
#include "device/group.h"
#include "device/math.h"
#include "params.h"

namespace llmc {

constexpr int kRowTiles = row_tiles(kHeadDim);
constexpr int kRows = 16 * kRowTiles;            // keys of a warp
constexpr int kKeys = kLanes / 32 * kRows;       // of a block
constexpr int kParts = kHeadDim <= 128 ? 1 : 4;  // blocks that share the columns of dk and dv
constexpr int kPart = (kHeadDim + 16 * kParts - 1) / (16 * kParts) * 16;
constexpr int kDim = kPart * kParts;                                       // padded with zeros
constexpr int kStride = kDim + kRowPadding;                                // of a row in shared memory
constexpr int kQueries = kHeadDim <= 64 ? 64 : kHeadDim <= 128 ? 32 : 16;  // at once in shared memory
constexpr int kSequences = kBatch * kKvHeads * kParts;
constexpr int kGroupHeads = kHeads / kKvHeads;

/// dout [kBatch * kSequence, kOutPitch]; qkv, dqkv [kBatch * kSequence, kPitch]: dk and dv are written; lse, delta
/// [kBatch, kHeads, kSequence].
LLMC_TILE_BOUNDS(kLanes, kHeadDim)
LLMC_KERNEL attention_backward_keys(const Act* __restrict__ dout, const Act* __restrict__ qkv,
                                    const float* __restrict__ lse, const float* __restrict__ delta,
                                    Act* __restrict__ dqkv LLMC_FURTHER_OPERANDS) {
  __shared__ __align__(16) Act tiles[2][2][kQueries * kStride];  // double buffer: queries, dout
  __shared__ __align__(16) float lines[2][2][kQueries];          // lse, delta
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  // The first keys have the most queries and are scheduled first, so that blocks end together.
  const int task = blockIdx.x;
  const int first = task / kSequences * kKeys;
  const int part = task % kParts, kv_head = task / kParts % kKvHeads, batch = task % kSequences / (kParts * kKvHeads);
  const int row = batch * kSequence;
  [[maybe_unused]] Mask mask = LLMC_MASK;
  [[maybe_unused]] int last_query = 0;  // that sees a key of the block
  if constexpr (kBounded) last_query = mask.hi(first + kKeys - 1);
  const auto begin_copies = [&](int turn) {
    const int head = kv_head * kGroupHeads + turn % kGroupHeads;
    const int query = first + turn / kGroupHeads * kQueries, line = (batch * kHeads + head) * kSequence + query;
    if (query >= kSequence) return;
    if constexpr (kBounded) {
      if (query > last_query) return;
    }
    copy_tile<kLanes, kQueries, kHeadDim, kDim, kPitch>(
        tiles[turn % 2][0], qkv + static_cast<long long>(row + query) * kPitch + head * kHeadDim, kSequence - query);
    copy_tile<kLanes, kQueries, kHeadDim, kDim, kOutPitch>(
        tiles[turn % 2][1], dout + static_cast<long long>(row + query) * kOutPitch + head * kHeadDim,
        kSequence - query);
    copy_line<kLanes, kQueries>(lines[turn % 2][0], lse + line, kSequence - query);
    copy_line<kLanes, kQueries>(lines[turn % 2][1], delta + line, kSequence - query);
  };
  const int key = first + kRows * warp, count = kSequence - key;  // the warp's first key, keys from there on
  // Queries after sees_all do not see some of the warp's keys, and those after sees_some none.
  [[maybe_unused]] int sees_all = 0, sees_some = 0;
  if constexpr (kBounded) sees_all = mask.hi(key), sees_some = mask.hi(key + kRows - 1);
  const long long key_row = static_cast<long long>(row + key) * kPitch + (kHeads + kv_head) * kHeadDim;
  unsigned keys[kDim / 16][kRowTiles][4], values[kDim / 16][kRowTiles][4];
#pragma unroll
  for (int s = 0; s < kDim / 16; ++s) {
    load_fragments<kHeadDim, kPitch>(keys[s], qkv + key_row, 16 * s, count);
    load_fragments<kHeadDim, kPitch>(values[s], qkv + key_row + kKvHeads * kHeadDim, 16 * s, count);
  }

  float dk[kRowTiles][kPart / 8][4] = {}, dv[kRowTiles][kPart / 8][4] = {};
  // An iteration has kQueries queries of one of the heads. The first one has none yet and only starts the copies.
  for (int turn = -1, query = first; query < kSequence; ++turn, query = first + turn / kGroupHeads * kQueries) {
    if constexpr (kBounded) {
      if (query > last_query) break;
    }
    const Act *queries = tiles[turn & 1][0], *gradients = tiles[turn & 1][1];
    const float *row_lse = lines[turn & 1][0], *row_delta = lines[turn & 1][1];
    wait_for_copies();
    __syncthreads();  // all copies have arrived, and all warps are done with the other buffer
    begin_copies(turn + 1);
    for (int step = turn < 0 || key >= kSequence ? kQueries : max(0, key - query); step < kQueries; step += 16) {
      if constexpr (kBounded) {
        if (query + step > sees_some) break;
      }
      unsigned powers[kRowTiles][4], weights[kRowTiles][4];
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const int at = step + 8 * n;
        float scores[kRowTiles][4] = {}, dscores[kRowTiles][4] = {};  // [keys, queries]
        multiply_rows<kStride>(scores, keys, queries + at * kStride);
        if constexpr (kSoftcap > 0) soft_cap(scores, kSoftcap / kScale);
        multiply_rows<kStride>(dscores, values, gradients + at * kStride);
        if (key + kRows > query + at + 1) mask_later<true>(scores, query + at, key);
        if constexpr (kBounded) {
          if (query + at + 7 > sees_all) mask_earlier<true>(scores, query + at, key, mask);
        }
#pragma unroll
        for (int i = 0; i < 4 * kRowTiles; ++i) {
          const int column = at + lane % 4 * 2 + i % 2;
          float &p = scores[i / 4][i % 4], &ds = dscores[i / 4][i % 4];
          ds -= row_delta[column];
          if constexpr (kSoftcap > 0) ds *= soft_cap_slope(p, kSoftcap / kScale);
          p = exp2_approx(fma(p, kScale * kLog2e, -row_lse[column] * kLog2e));
          ds *= p;
        }
        round_columns<Act>(powers, scores, n);
        round_columns<Act>(weights, dscores, n);
      }
      multiply_columns<kStride>(dv, powers, gradients + step * kStride + part * kPart);
      multiply_columns<kStride>(dk, weights, queries + step * kStride + part * kPart);
    }
  }
  // key_row again: kept over the loop, it would take registers that a soft cap needs.
  const long long result_row = static_cast<long long>(opaque(row + key)) * kPitch + (kHeads + kv_head) * kHeadDim;
  store_result<kHeadDim, kPitch>(dk, kScale, dqkv + result_row, part * kPart, count);
  store_result<kHeadDim, kPitch>(dv, 1.0f, dqkv + result_row + kKvHeads * kHeadDim, part * kPart, count);
}

}  // namespace llmc
