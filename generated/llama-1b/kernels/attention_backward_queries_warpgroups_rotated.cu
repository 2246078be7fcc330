// attention_backward_queries_warpgroups_rotated: from template attention_backward_queries_warpgroups for run llama-1b
// (67f153b1f9efd53ce0b214734deeb5f9).
//
// kSequence = 2048, kHeads = 32, kKvHeads = 8, kHeadDim = 64, kPitch = 3072, kOutPitch = 2048, kRotates = true, kScale
// = 0.125f, kLanes = 128
//
// 32768 queries of 32 heads; moves 612.89 MB, 412316.86 MFLOP a launch.

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

namespace llmc {

constexpr int kTiles = (2048 + kTile - 1) / kTile;
constexpr int kSlices = kSlicesOf<64>;
constexpr int kOperand = kSlices * kTileElements;  // 64 rows in shared memory
constexpr int kGroupHeads = 4;
static_assert(kSlices <= 2);

/// Turns a tile of scores [queries, keys] from `query` and `key` on into P; with a soft cap times its slope. lse: of
/// the lane's two queries, to base 2. seen_from: the first key that each of them sees.
__device__ __forceinline__ void turn_into_powers(float (&scores)[8][4], const float (&lse)[2], int query, int key,
                                                 bool on_diagonal, [[maybe_unused]] bool on_bound,
                                                 [[maybe_unused]] const int (&seen_from)[2]) {
  if (on_diagonal) mask_later<false>(scores, query, key);
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      scores[n][i] = exp2_approx(fma(scores[n][i], 0.125f * kLog2e, -lse[i / 2]));
    }
  }
}

/// dout, out [kBatch * kSequence, kOutPitch]; qkv, dqkv [kBatch * kSequence, kPitch]: dq is written; lse, delta
/// [kBatch, kHeads, kSequence]; rope_table [kSequence, kHeadDim].
__launch_bounds__(128, kSlices == 1 ? 3 : 2) LLMC_KERNEL
    attention_backward_queries_warpgroups_rotated(const bf16* __restrict__ dout, const bf16* __restrict__ out,
                                                  const bf16* __restrict__ qkv, const float* __restrict__ lse,
                                                  bf16* __restrict__ dqkv, float* __restrict__ delta,
                                                  const float* __restrict__ rope_table) {
  auto& tiles = *reinterpret_cast<bf16(*)[2][2][kOperand]>(block_memory);  // double buffer: keys, values
  const int lane = threadIdx.x % 32;
  // Heads that share keys are scheduled together. The last queries have the most keys and are scheduled first, so that
  // blocks end together.
  const int task = blockIdx.x, first = (kTiles - 1 - task / kGroupHeads % kTiles) * kTile;
  const int sequence = task / (kGroupHeads * kTiles), kv_head = sequence % 8, batch = sequence / 8;
  const int head = kv_head * kGroupHeads + task % kGroupHeads;
  const long long row = static_cast<long long>(batch) * 2048;
  [[maybe_unused]] const bf16* key_rows = qkv + row * 3072 + (32 + kv_head) * 64;
  [[maybe_unused]] const auto begin_copies = [&](int buffer, int key) {
    const bf16* from = key_rows + static_cast<long long>(key) * 3072;
    copy_swizzled<128, 64, 3072>(tiles[buffer][0], from, 2048 - key);
    copy_swizzled<128, 64, 3072>(tiles[buffer][1], from + 512, 2048 - key);
  };
  // Keys before all_seen are hidden from some of the queries. seen_from: of the lane's queries.
  [[maybe_unused]] int first_key = 0, all_seen = 0, seen_from[2] = {};
  begin_copies(0, first_key);
  const int query = first + threadIdx.x / 32 * 16, count = 2048 - query;  // the warp's first, and those left
  const long long out_row = (row + query) * 2048 + head * 64;
  unsigned queries[4 * kSlices][1][4], gradients[4 * kSlices][1][4];
  load_left<64, 3072>(queries, qkv + (row + query) * 3072 + head * 64, count);
  load_left<64, 2048>(gradients, dout + out_row, count);
  float row_delta[1][2] = {};  // dot(dout, out)
#pragma unroll
  for (int s = 0; s < 4 * kSlices; ++s) {
    unsigned outs[1][4];
    load_fragments<64, 2048>(outs, out + out_row, 16 * s, count);
    add_products(row_delta, gradients[s], outs);
  }
  const long long line = (static_cast<long long>(batch) * 32 + head) * 2048 + query;
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
  for (int key = 0, buffer = 0; key <= first; key += kTile, buffer ^= 1) {
    wait_for_copies();
    show_to_warpgroups();
    __syncthreads();  // all copies have arrived, and all warps are done with the other buffer
    if (key < first) begin_copies(buffer ^ 1, key + kTile);
    float scores[8][4], dscores[8][4];
    wgmma_fence();
    begin_rows(scores, queries, tiles[buffer][0]);
    begin_rows(dscores, gradients, tiles[buffer][1]);
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
  }
  rotate_back<64, 2048>(dq, rope_table, query);
  store_rows<64, 3072>(dq, 0.125f, dqkv + (row + query) * 3072 + head * 64, count);
}

}  // namespace llmc
