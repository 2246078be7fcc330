// attention_forward for heads of up to 128 on sm_90a: the same formulas with warpgroup products.
//
// A block is one warpgroup and owns 64 queries of a head as fragments. Keys and values pass through shared memory, 64
// of each at a time; copies of the next ones overlap the products of these. Exponentials are a left operand in
// registers: no intermediate result goes through memory. Floor: 2 kSequence^2 kHeadDim FLOPs per head, qkv read once,
// out and lse written once. Each block of queries rereads the keys before it, which the L2 cache holds.
//
// With kMulticast > 1, that many blocks, of heads that share keys, are a cluster that reads them once
// (device/cuda/multicast.h).
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

/// Online softmax: a tile's scores become exponentials of their differences to the highest one of their row so far,
/// with the factors of both. `total` and `sums` have the sums of earlier tiles' exponentials, without and with their
/// values; they shrink to that highest score, and `total` gets this tile's.
__device__ __forceinline__ void turn_into_powers(float (&scores)[8][4], float (&highest)[2], float (&total)[1][2],
                                                 float (&sums)[kSlices][1][8][4]) {
  float top[2] = {highest[0], highest[1]};
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) top[i / 2] = max(top[i / 2], scores[n][i]);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    top[half] = max_of_row(top[half]);
    const float shrink = exp2_approx((highest[half] - top[half]) * (kScale * kLog2e));
    highest[half] = top[half];
    top[half] *= kScale * kLog2e;
    total[0][half] *= shrink;
#pragma unroll
    for (int i = 0; i < 16 * kSlices; ++i) sums[i / 16][0][i / 2 % 8][2 * half + i % 2] *= shrink;
  }
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      scores[n][i] = exp2_approx(fma(scores[n][i], kScale * kLog2e, -top[i / 2]));
      total[0][i / 2] += scores[n][i];
    }
  }
}

/// qkv [kBatch * kSequence, kPitch] with rows of q [kHeads, kHeadDim], k and v [kKvHeads, kHeadDim], already rotated;
/// out [kBatch * kSequence, kOutPitch] = softmax(q k^T / sqrt(kHeadDim)) v; lse [kBatch, kHeads, kSequence], natural.
__launch_bounds__(kLanes, kSlices == 1 ? 4 : 3) LLMC_KERNEL
    attention_forward_warpgroups(const bf16* __restrict__ qkv, bf16* __restrict__ out,
                                 float* __restrict__ lse LLMC_FURTHER_OPERANDS) {
  auto& tiles = *reinterpret_cast<bf16(*)[2][2][kOperand]>(block_memory);  // double buffer: keys, values
  const int lane = threadIdx.x % 32;
  // Heads that share keys are scheduled together. The last queries have the most keys and are scheduled first, so that
  // blocks end together.
  const int task = blockIdx.x, first = (kTiles - 1 - task / kGroupHeads % kTiles) * kTile;
  const int sequence = task / (kGroupHeads * kTiles), kv_head = sequence % kKvHeads, batch = sequence / kKvHeads;
  const int head = kv_head * kGroupHeads + task % kGroupHeads;
  const bf16* rows = qkv + static_cast<long long>(batch) * kSequence * kPitch;
  [[maybe_unused]] const bf16* key_rows = rows + (kHeads + kv_head) * kHeadDim;
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
  const int query = first + threadIdx.x / 32 * 16;  // the warp's first query
  const bf16* query_rows = rows + static_cast<long long>(query) * kPitch + head * kHeadDim;
  unsigned queries[4 * kSlices][1][4];
  load_left<kHeadDim, kPitch>(queries, query_rows, kSequence - query);
  float sums[kSlices][1][8][4] = {};  // of exp(score - highest) * value
  float highest[2] = {kNothing, kNothing}, total[1][2] = {};

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
    float scores[8][4];
    wgmma_fence();
    begin_rows(scores, queries, tiles[buffer][0]);
    if constexpr (kMulticast > 1) {
      if (key < first) group.copy_turn(key_map, turn + 1, key + kTile);
    }
    wgmma_wait<0>(scores);
    if constexpr (kSoftcap > 0) soft_cap(scores, kSoftcap / kScale);
    if (key == first) mask_later<false>(scores, query, key);
    if constexpr (kBounded) {
      if (key < all_seen) mask_bounded<false>(scores, key, seen_from);
    }
    turn_into_powers(scores, highest, total, sums);
    unsigned weights[4][1][4];
    round_result(weights, scores);
    wgmma_fence();
    begin_columns(sums, weights, tiles[buffer][1]);
    wgmma_wait<0>(sums);
    if constexpr (kMulticast > 1) group.release(turn++);
  }
  if constexpr (kMulticast > 1) group.arrive_at_end();

  float* line = lse + (static_cast<long long>(batch) * kHeads + head) * kSequence;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float& sum = total[0][half];
    sum = sum_of_row(sum);
    const int row = query + lane / 4 + half * 8;
    if (lane % 4 == 0 && row < kSequence) line[row] = highest[half] * kScale + log(sum);
    sum = 1.0f / sum;
  }
  bf16* result = out + (static_cast<long long>(batch) * kSequence + query) * kOutPitch + head * kHeadDim;
  store_rows<kHeadDim, kOutPitch>(sums, total, result, kSequence - query);
  if constexpr (kMulticast > 1) group.wait_at_end();
}

}  // namespace llmc
