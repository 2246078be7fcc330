// attention_backward_keys for heads of up to 128 on sm_90a: the same formulas with warpgroup products.
//
// A block is one warpgroup and owns 64 keys of a key head: as fragments, or in shared memory where dk and dv of a wide
// head take the registers. Queries and dout pass through shared memory, 64 of each at a time; copies of the next ones
// overlap the products of these. Scores are transposed, so that P and dS are left operands in registers: no
// intermediate result goes through memory. There are no atomic sums, so equal runs give equal bits. Floor: 4
// kSequence^2 kHeadDim FLOPs per head; qkv, dout, lse and delta read once, dk and dv written once.
//
// With kRotates, dk is also rotated back by the angles of RoPE before it is rounded, which saves that op its reading
// and writing of dk. A block reads 64 rows of the table, 256 kHeadDim bytes from the L2 cache, as much as a tile of
// queries and one of dout.
#include "device/cuda/warpgroup.h"
#include "device/group.h"
#include "device/math.h"
#include "params.h"

namespace llmc {

constexpr int kTiles = (kSequence + kTile - 1) / kTile;
constexpr int kSlices = kSlicesOf<kHeadDim>;
constexpr int kOperand = kSlices * kTileElements;  // 64 rows in shared memory
constexpr bool kInRegisters = kSlices == 1;        // keys and values
constexpr int kGroupHeads = kHeads / kKvHeads;
static_assert(kSlices <= 2);

/// Of a block, in shared memory. Keys and values follow, if they are there.
struct Shared {
  bf16 tiles[2][2][kOperand];  // double buffer: queries, dout
  float lines[2][2][kTile];    // double buffer: lse, delta
};

/// Turns a tile of scores [keys, queries] from `key` and `query` on into P, rounded to `powers`; with a soft cap they
/// become P times its slope. lse: of the queries. seen_until: the last query that sees each of the lane's two keys.
__device__ __forceinline__ void turn_into_powers(float (&scores)[8][4], unsigned (&powers)[4][1][4], const float* lse,
                                                 int query, int key, bool on_diagonal, [[maybe_unused]] bool on_bound,
                                                 [[maybe_unused]] const int (&seen_until)[2]) {
  if constexpr (kSoftcap > 0) soft_cap(scores, kSoftcap / kScale);
  if (on_diagonal) mask_later<true>(scores, query, key);
  if constexpr (kBounded) {
    if (on_bound) mask_bounded<true>(scores, query, seen_until);
  }
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    const float2 sums = *reinterpret_cast<const float2*>(lse + 8 * n + threadIdx.x % 4 * 2);
    [[maybe_unused]] float bend[4];  // slope of the soft cap
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (kSoftcap > 0) bend[i] = soft_cap_slope(scores[n][i], kSoftcap / kScale);
      scores[n][i] = exp2_approx(fma(scores[n][i], kScale * kLog2e, -(i % 2 ? sums.y : sums.x) * kLog2e));
    }
    round_columns(powers[n / 2], reinterpret_cast<float(&)[1][4]>(scores[n]), n % 2);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (kSoftcap > 0) scores[n][i] *= bend[i];
    }
  }
}

/// dout [kBatch * kSequence, kOutPitch]; qkv, dqkv [kBatch * kSequence, kPitch]: dk and dv are written; lse, delta
/// [kBatch, kHeads, kSequence]; rope_table [kSequence, kHeadDim].
__launch_bounds__(kLanes) LLMC_KERNEL
    attention_backward_keys_warpgroups(const bf16* __restrict__ dout, const bf16* __restrict__ qkv,
                                       const float* __restrict__ lse, const float* __restrict__ delta,
                                       bf16* __restrict__ dqkv LLMC_FURTHER_OPERANDS) {
  Shared& shared = *reinterpret_cast<Shared*>(block_memory);
  [[maybe_unused]] bf16* own = reinterpret_cast<bf16*>(block_memory + sizeof(Shared));
  const int lane = threadIdx.x % 32;
  // Tensors that a batch's blocks read stay in the L2 cache. The first keys have the most queries and are scheduled
  // first, so that its blocks end together.
  const int task = blockIdx.x;
  const int first = task / kKvHeads % kTiles * kTile, kv_head = task % kKvHeads, batch = task / (kKvHeads * kTiles);
  const int row = batch * kSequence;
  [[maybe_unused]] Mask mask = LLMC_MASK;
  // Queries after sees_all do not see some of the keys, and those from `end` on none. seen_until: of the lane's keys.
  int end = kSequence;
  [[maybe_unused]] int sees_all = 0, seen_until[2] = {};
  if constexpr (kBounded) {
    const int own_key = first + threadIdx.x / 32 * 16 + lane / 4;
    sees_all = mask.hi(first), end = mask.hi(first + kTile - 1) + 1;
    seen_until[0] = mask.hi(own_key), seen_until[1] = mask.hi(own_key + 8);
  }
  const auto begin_copies = [&](int turn) {
    const int head = kv_head * kGroupHeads + turn % kGroupHeads;
    const int query = first + turn / kGroupHeads * kTile, line = (batch * kHeads + head) * kSequence + query;
    if (query >= end) return;
    auto& tiles = shared.tiles[turn % 2];
    auto& lines = shared.lines[turn % 2];
    copy_swizzled<kLanes, kHeadDim, kPitch>(
        tiles[0], qkv + static_cast<long long>(row + query) * kPitch + head * kHeadDim, kSequence - query);
    copy_swizzled<kLanes, kHeadDim, kOutPitch>(
        tiles[1], dout + static_cast<long long>(row + query) * kOutPitch + head * kHeadDim, kSequence - query);
    copy_line<kLanes, kTile>(lines[0], lse + line, kSequence - query);
    copy_line<kLanes, kTile>(lines[1], delta + line, kSequence - query);
  };
  begin_copies(0);
  const int key = first + threadIdx.x / 32 * 16, count = kSequence - key;  // the warp's first key, keys from there on
  const long long key_row = static_cast<long long>(row + key) * kPitch + (kHeads + kv_head) * kHeadDim;
  [[maybe_unused]] unsigned keys[4 * kSlices][1][4], values[4 * kSlices][1][4];
  if constexpr (kInRegisters) {
    load_left<kHeadDim, kPitch>(keys, qkv + key_row, count);
    load_left<kHeadDim, kPitch>(values, qkv + key_row + kKvHeads * kHeadDim, count);
  } else {
    const bf16* from = qkv + static_cast<long long>(row + first) * kPitch + (kHeads + kv_head) * kHeadDim;
    copy_swizzled<kLanes, kHeadDim, kPitch>(own, from, kSequence - first);
    copy_swizzled<kLanes, kHeadDim, kPitch>(own + kOperand, from + kKvHeads * kHeadDim, kSequence - first);
  }

  float dk[kSlices][1][8][4] = {}, dv[kSlices][1][8][4] = {};
  // An iteration has 64 queries of one of the heads. Its last two products end in the next iteration. The first one has
  // no condition: a path around the loop would copy dk and dv, and so make the products wait for each other.
  int turn = 0, query = first;
  do {
    const bf16 *queries = shared.tiles[turn & 1][0], *gradients = shared.tiles[turn & 1][1];
    const float *row_lse = shared.lines[turn & 1][0], *row_delta = shared.lines[turn & 1][1];
    wait_for_copies();
    show_to_warpgroups();
    __syncthreads();                    // all copies have arrived
    float scores[8][4], dscores[8][4];  // [keys, queries]
    wgmma_fence();
    if constexpr (kInRegisters)
      begin_rows(scores, keys, queries), begin_rows(dscores, values, gradients);
    else
      begin_rows<kSlices>(scores, own, queries), begin_rows<kSlices>(dscores, own + kOperand, gradients);
    wgmma_wait<2>();
    __syncthreads();  // all warps are done with the other buffer
    begin_copies(turn + 1);
    wgmma_wait<1>(scores);
    unsigned powers[4][1][4], weights[4][1][4];
    turn_into_powers(scores, powers, row_lse, query, key, query == first, query + kTile - 1 > sees_all, seen_until);
    wgmma_fence();
    begin_columns(dv, powers, gradients);
    wgmma_wait<1>(dscores);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const float2 less = *reinterpret_cast<const float2*>(row_delta + 8 * n + lane % 4 * 2);
#pragma unroll
      for (int i = 0; i < 4; ++i) dscores[n][i] = scores[n][i] * (dscores[n][i] - (i % 2 ? less.y : less.x));
    }
    round_result(weights, dscores);
    wgmma_fence();
    begin_columns(dk, weights, queries);
    ++turn, query = first + turn / kGroupHeads * kTile;
  } while (query < end);
  wgmma_wait<0>(dv);
  wgmma_wait<0>(dk);
  if constexpr (kResets)
    rotate_back<kHeadDim, kSequence>(dk, rope_table, key, document_begin + row);
  else if constexpr (kRotates)
    rotate_back<kHeadDim, kSequence>(dk, rope_table, key);
  store_rows<kHeadDim, kPitch>(dk, kScale, dqkv + key_row, count);
  store_rows<kHeadDim, kPitch>(dv, 1.0f, dqkv + key_row + kKvHeads * kHeadDim, count);
}

}  // namespace llmc
