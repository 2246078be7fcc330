// attention_backward_queries for heads of up to 128 on sm_90a: the same formulas with warpgroup products.
//
// A block is one warpgroup and owns 64 queries of a head as fragments. Keys and values pass through shared memory, 64
// of each at a time; copies of the next ones overlap the products of these. dS is a left operand in registers: no
// intermediate result goes through memory. There are no atomic sums, so equal runs give equal bits. Floor: 3
// kSequence^2 kHeadDim FLOPs per head; qkv, dout, out and lse read once, dq and delta written once.
//
// With kMulticast > 1, that many blocks, of heads that share keys, are a cluster that reads them once
// (device/cuda/multicast.h).
//
// With kRotates, dq is also rotated back by the angles of RoPE before it is rounded, which saves that op its reading
// and writing of dq. A block reads 64 rows of the table, 256 kHeadDim bytes from the L2 cache, as much as a tile of
// keys and one of values.
#include "device/cuda/multicast.h"
#include "device/cuda/warpgroup.h"
#include "device/group.h"
#include "device/math.h"
#include "params.h"

namespace llmc {

constexpr int kTiles = (kSequence + kTile - 1) / kTile;
constexpr int kSlices = kSlicesOf<kHeadDim>;
constexpr int kOperand = kSlices * kTileElements;  // 64 rows in shared memory
constexpr int kGroupHeads = kHeads / kKvHeads;
static_assert(kSlices <= 2);

/// Turns a tile of scores [queries, keys] from `query` and `key` on into P; with a soft cap times its slope. lse: of
/// the lane's two queries, to base 2. seen_from: the first key that each of them sees.
__device__ __forceinline__ void turn_into_powers(float (&scores)[8][4], const float (&lse)[2], int query, int key,
                                                 bool on_diagonal, [[maybe_unused]] bool on_bound,
                                                 [[maybe_unused]] const int (&seen_from)[2]) {
  if constexpr (kSoftcap > 0) soft_cap(scores, kSoftcap / kScale);
  if (on_diagonal) mask_later<false>(scores, query, key);
  if constexpr (kBounded) {
    if (on_bound) mask_bounded<false>(scores, key, seen_from);
  }
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      [[maybe_unused]] float bend = 1.0f;  // slope of the soft cap
      if constexpr (kSoftcap > 0) bend = soft_cap_slope(scores[n][i], kSoftcap / kScale);
      scores[n][i] = exp2_approx(fma(scores[n][i], kScale * kLog2e, -lse[i / 2]));
      if constexpr (kSoftcap > 0) scores[n][i] *= bend;
    }
  }
}

/// dout, out [kBatch * kSequence, kOutPitch]; qkv, dqkv [kBatch * kSequence, kPitch]: dq is written; lse, delta
/// [kBatch, kHeads, kSequence]; rope_table [kSequence, kHeadDim].
__launch_bounds__(kLanes, kSlices == 1 ? 3 : 2) LLMC_KERNEL
    attention_backward_queries_warpgroups(const bf16* __restrict__ dout, const bf16* __restrict__ out,
                                          const bf16* __restrict__ qkv, const float* __restrict__ lse,
                                          bf16* __restrict__ dqkv, float* __restrict__ delta LLMC_FURTHER_OPERANDS) {
  auto& tiles = *reinterpret_cast<bf16(*)[2][2][kOperand]>(block_memory);  // double buffer: keys, values
  const int lane = threadIdx.x % 32;
  // Heads that share keys are scheduled together. The last queries have the most keys and are scheduled first, so that
  // blocks end together.
  const int task = blockIdx.x, first = (kTiles - 1 - task / kGroupHeads % kTiles) * kTile;
  const int sequence = task / (kGroupHeads * kTiles), kv_head = sequence % kKvHeads, batch = sequence / kKvHeads;
  const int head = kv_head * kGroupHeads + task % kGroupHeads;
  const long long row = static_cast<long long>(batch) * kSequence;
  [[maybe_unused]] const bf16* key_rows = qkv + row * kPitch + (kHeads + kv_head) * kHeadDim;
  [[maybe_unused]] const Multicast<kMulticast, kHeadDim> group = {tiles, kHeads + kv_head, kHeads + kKvHeads + kv_head,
                                                                  batch};
  [[maybe_unused]] const auto begin_copies = [&](int buffer, int key) {
    const bf16* from = key_rows + static_cast<long long>(key) * kPitch;
    copy_swizzled<kLanes, kHeadDim, kPitch>(tiles[buffer][0], from, kSequence - key);
    copy_swizzled<kLanes, kHeadDim, kPitch>(tiles[buffer][1], from + kKvHeads * kHeadDim, kSequence - key);
  };
  [[maybe_unused]] Mask mask = LLMC_MASK;
  // Keys before all_seen are hidden from some of the queries. seen_from: of the lane's queries.
  [[maybe_unused]] int first_key = 0, all_seen = 0, seen_from[2] = {};
  if constexpr (kBounded) {
    const int own_query = first + threadIdx.x / 32 * 16 + lane / 4;
    first_key = mask.first_tile(first, kTile), all_seen = mask.lo(first + kTile - 1);
    seen_from[0] = mask.lo(own_query), seen_from[1] = mask.lo(own_query + 8);
  }
  if constexpr (kMulticast > 1) {
    static_assert(kGroupHeads % kMulticast == 0);
    group.begin(key_map, first_key);
  } else {
    begin_copies(0, first_key);
  }
  const int query = first + threadIdx.x / 32 * 16, count = kSequence - query;  // the warp's first, and those left
  const long long out_row = (row + query) * kOutPitch + head * kHeadDim;
  unsigned queries[4 * kSlices][1][4], gradients[4 * kSlices][1][4];
  load_left<kHeadDim, kPitch>(queries, qkv + (row + query) * kPitch + head * kHeadDim, count);
  load_left<kHeadDim, kOutPitch>(gradients, dout + out_row, count);
  float row_delta[1][2] = {};  // dot(dout, out)
#pragma unroll
  for (int s = 0; s < 4 * kSlices; ++s) {
    unsigned outs[1][4];
    load_fragments<kHeadDim, kOutPitch>(outs, out + out_row, 16 * s, count);
    add_products(row_delta, gradients[s], outs);
  }
  const long long line = (static_cast<long long>(batch) * kHeads + head) * kSequence + query;
  float row_lse[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int at = lane / 4 + half * 8;
    float& sum = row_delta[0][half];
    sum = sum_of_row(sum);
    row_lse[half] = at < count ? lse[line + at] * kLog2e : 0.0f;
    if (lane % 4 == 0 && at < count) delta[line + at] = sum;
  }

  float dq[kSlices][1][8][4] = {};
  [[maybe_unused]] int turn = 0;
  for (int key = 0, buffer = 0; key <= first; key += kTile, buffer ^= 1) {
    if constexpr (kBounded) key = max(key, first_key);
    if constexpr (kMulticast > 1) {
      group.wait(turn);
    } else {
      wait_for_copies();
      show_to_warpgroups();
      __syncthreads();  // all copies have arrived, and all warps are done with the other buffer
      if (key < first) begin_copies(buffer ^ 1, key + kTile);
    }
    float scores[8][4], dscores[8][4];
    wgmma_fence();
    begin_rows(scores, queries, tiles[buffer][0]);
    begin_rows(dscores, gradients, tiles[buffer][1]);
    if constexpr (kMulticast > 1) {
      if (key < first) group.copy_turn(key_map, turn + 1, key + kTile);
    }
    wgmma_wait<1>(scores);
    turn_into_powers(scores, row_lse, query, key, key == first, key < all_seen, seen_from);
    wgmma_wait<0>(dscores);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) dscores[n][i] = scores[n][i] * (dscores[n][i] - row_delta[0][i / 2]);
    }
    unsigned weights[4][1][4];
    round_result(weights, dscores);
    wgmma_fence();
    begin_columns(dq, weights, tiles[buffer][0]);
    wgmma_wait<0>(dq);
    if constexpr (kMulticast > 1) group.release(turn++);
  }
  if constexpr (kMulticast > 1) group.arrive_at_end();
  if constexpr (kResets)
    rotate_back<kHeadDim, kSequence>(dq, rope_table, query, document_begin + row);
  else if constexpr (kRotates)
    rotate_back<kHeadDim, kSequence>(dq, rope_table, query);
  store_rows<kHeadDim, kPitch>(dq, kScale, dqkv + (row + query) * kPitch + head * kHeadDim, count);
  if constexpr (kMulticast > 1) group.wait_at_end();
}

}  // namespace llmc
