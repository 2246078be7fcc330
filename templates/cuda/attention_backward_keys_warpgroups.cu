// attention_backward_keys for heads of 64 on sm_90a: the same formulas with warpgroup products.
//
// A block is one warpgroup and owns 64 keys of a key head as fragments. Queries and dout pass through shared memory, 64
// of each at a time; copies of the next ones overlap the products of these. Scores are transposed, so that P and dS are
// left operands in registers: no intermediate result goes through memory. There are no atomic sums, so equal runs give
// equal bits. Floor: 4 kSequence^2 kHeadDim FLOPs per head; qkv, dout, lse and delta read once, dk and dv written once.
#include "device/cuda/warpgroup.h"
#include "device/group.h"
#include "device/math.h"
#include "params.h"

namespace llmc {

constexpr int kTiles = (kSequence + kTile - 1) / kTile;
constexpr int kGroupHeads = kHeads / kKvHeads;
constexpr bool kBounded = kWindow > 0 || kDocuments;  // queries do not see all keys before theirs
static_assert(kHeadDim == kTile);

/// dout [kBatch * kSequence, kOutPitch]; qkv, dqkv [kBatch * kSequence, kPitch]: dk and dv are written; lse, delta
/// [kBatch, kHeads, kSequence].
__launch_bounds__(kLanes) LLMC_KERNEL
    attention_backward_keys_warpgroups(const bf16* __restrict__ dout, const bf16* __restrict__ qkv,
                                       const float* __restrict__ lse, const float* __restrict__ delta,
                                       bf16* __restrict__ dqkv LLMC_FURTHER_OPERANDS) {
  __shared__ __align__(1024) bf16 tiles[2][2][kTile * kTile];  // double buffer: queries, dout
  __shared__ __align__(16) float lines[2][2][kTile];           // lse, delta
  const int lane = threadIdx.x % 32;
  // Tensors that a batch's blocks read stay in the L2 cache. The first keys have the most queries and are scheduled
  // first, so that its blocks end together.
  const int task = blockIdx.x;
  const int first = task / kKvHeads % kTiles * kTile, kv_head = task % kKvHeads, batch = task / (kKvHeads * kTiles);
  const int row = batch * kSequence;
  [[maybe_unused]] Mask mask = {kSequence, kWindow};
  if constexpr (kDocuments) mask = mask.with_documents(document_begin, document_end, batch);
  // Queries after sees_all do not see some of the keys, and those after last_query none.
  [[maybe_unused]] int sees_all = 0, last_query = 0;
  if constexpr (kBounded) sees_all = mask.hi(first), last_query = mask.hi(first + kTile - 1);
  const auto begin_copies = [&](int turn) {
    const int head = kv_head * kGroupHeads + turn % kGroupHeads;
    const int query = first + turn / kGroupHeads * kTile, line = (batch * kHeads + head) * kSequence + query;
    if (query >= kSequence) return;
    if constexpr (kBounded) {
      if (query > last_query) return;
    }
    copy_swizzled<kLanes, kPitch>(
        tiles[turn % 2][0], qkv + static_cast<long long>(row + query) * kPitch + head * kHeadDim, kSequence - query);
    copy_swizzled<kLanes, kOutPitch>(tiles[turn % 2][1],
                                     dout + static_cast<long long>(row + query) * kOutPitch + head * kHeadDim,
                                     kSequence - query);
    copy_line<kLanes, kTile>(lines[turn % 2][0], lse + line, kSequence - query);
    copy_line<kLanes, kTile>(lines[turn % 2][1], delta + line, kSequence - query);
  };
  begin_copies(0);
  const int key = first + threadIdx.x / 32 * 16, count = kSequence - key;  // the warp's first key, keys from there on
  const long long key_row = static_cast<long long>(row + key) * kPitch + (kHeads + kv_head) * kHeadDim;
  unsigned keys[4][1][4], values[4][1][4];
#pragma unroll
  for (int s = 0; s < 4; ++s) {
    load_fragments<kHeadDim, kPitch>(keys[s], qkv + key_row, 16 * s, count);
    load_fragments<kHeadDim, kPitch>(values[s], qkv + key_row + kKvHeads * kHeadDim, 16 * s, count);
  }

  float dk[1][8][4] = {}, dv[1][8][4] = {};
  // An iteration has 64 queries of one of the heads. Its last two products end in the next iteration.
  for (int turn = 0, query = first; query < kSequence; ++turn, query = first + turn / kGroupHeads * kTile) {
    if constexpr (kBounded) {
      if (query > last_query) break;
    }
    const bf16 *queries = tiles[turn & 1][0], *gradients = tiles[turn & 1][1];
    const float *row_lse = lines[turn & 1][0], *row_delta = lines[turn & 1][1];
    wait_for_copies();
    show_to_warpgroups();
    __syncthreads();                    // all copies have arrived
    float scores[8][4], dscores[8][4];  // [keys, queries]
    wgmma_fence();
    begin_rows(scores, keys, queries);
    begin_rows(dscores, values, gradients);
    wgmma_wait<2>();
    __syncthreads();  // all warps are done with the other buffer
    begin_copies(turn + 1);
    wgmma_wait<1>(scores);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      if (query == first) mask_later<true>(reinterpret_cast<float(&)[1][4]>(scores[n]), query + 8 * n, key);
      if constexpr (kBounded) {
        if (query + kTile - 1 > sees_all)
          mask_earlier<true>(reinterpret_cast<float(&)[1][4]>(scores[n]), query + 8 * n, key, mask);
      }
      const float2 sums = *reinterpret_cast<const float2*>(row_lse + 8 * n + lane % 4 * 2);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        scores[n][i] = exp2_approx(fma(scores[n][i], kScale * kLog2e, -(i % 2 ? sums.y : sums.x) * kLog2e));
    }
    unsigned powers[4][1][4], weights[4][1][4];
    round_result(powers, scores);
    wgmma_fence();
    begin_columns(dv[0], powers, gradients);
    wgmma_wait<1>(dscores);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const float2 less = *reinterpret_cast<const float2*>(row_delta + 8 * n + lane % 4 * 2);
#pragma unroll
      for (int i = 0; i < 4; ++i) dscores[n][i] = scores[n][i] * (dscores[n][i] - (i % 2 ? less.y : less.x));
    }
    round_result(weights, dscores);
    wgmma_fence();
    begin_columns(dk[0], weights, queries);
  }
  wgmma_wait<0>(dv[0]);
  wgmma_wait<0>(dk[0]);
  store_result<kHeadDim, kPitch>(dk, kScale, dqkv + key_row, 0, count);
  store_result<kHeadDim, kPitch>(dv, 1.0f, dqkv + key_row + kKvHeads * kHeadDim, 0, count);
}

}  // namespace llmc
