// Gradients of attention_forward_scalar with respect to keys and values. Recomputes P = exp(score - lse), transposed;
// dS = P * (dout v^T - delta); dv = P^T dout; dk = dS^T q / sqrt(kHeadDim), summed over the heads that share the key
// head, one after the other.
//
// A block owns 64 keys of a key head (32 of one wider than 64, 8 of one wider than 128). Queries and dout pass through
// shared memory. There are no atomic sums, so equal runs give equal bits. Floor: 4 kSequence^2 kHeadDim FLOPs per head;
// qkv, dout, lse and delta read once, dk and dv written once.
#include "device/cuda/scalar_tiles.h"
#include "device/group.h"
#include "params.h"

namespace llmc {

constexpr int kRows = rows_of_thread(kHeadDim);
constexpr int kTeams = kLanes / kTeam;
constexpr int kKeys = kRows * kTeams;                // of a block
constexpr int kColumns = kRows > 1 ? kRows / 2 : 1;  // queries of a thread at once
constexpr int kQueries = kColumns * kTeam;           // at once in shared memory
constexpr int kDim = padded_width(kHeadDim);
constexpr int kVectors = kDim / (4 * kTeam);          // columns of a thread, by four
constexpr int kStride = kDim + kRowPaddingOf<float>;  // of a row in shared memory
constexpr int kWeightStride = kQueries + kRowPaddingOf<float>;
constexpr int kSequences = kBatch * kKvHeads;
constexpr int kGroupHeads = kHeads / kKvHeads;

/// dout [kBatch * kSequence, kOutPitch]; qkv, dqkv [kBatch * kSequence, kPitch]: dk and dv are written; lse, delta
/// [kBatch, kHeads, kSequence].
LLMC_SCALAR_BOUNDS(kLanes)
LLMC_KERNEL
attention_backward_keys_scalar(const float* __restrict__ dout, const float* __restrict__ qkv,
                               const float* __restrict__ lse, const float* __restrict__ delta,
                               float* __restrict__ dqkv LLMC_FURTHER_OPERANDS) {
  __shared__ __align__(16) float keys[kKeys * kStride], values[kKeys * kStride];
  __shared__ __align__(16) float queries[kQueries * kStride], gradients[kQueries * kStride];
  __shared__ __align__(16) float weights[kKeys * kWeightStride];  // P, then dS
  const int member = threadIdx.x % kTeam, team = threadIdx.x / kTeam;
  // The first keys have the most queries and are scheduled first, so that blocks end together.
  const int task = blockIdx.x, first = task / kSequences * kKeys;
  const int batch = task % kSequences / kKvHeads, kv_head = task % kKvHeads;
  const long long start = static_cast<long long>(batch) * kSequence;
  const int key_column = (kHeads + kv_head) * kHeadDim, value_column = key_column + kKvHeads * kHeadDim;
  const float* key_rows = qkv + (start + first) * kPitch;
  copy_tile<kLanes, kKeys, kHeadDim, kDim, kPitch>(keys, key_rows + key_column, kSequence - first);
  copy_tile<kLanes, kKeys, kHeadDim, kDim, kPitch>(values, key_rows + value_column, kSequence - first);

  float dk[kRows][kVectors][4] = {}, dv[kRows][kVectors][4] = {};
  Mask mask = LLMC_MASK;
  const int end = mask.hi(min(first + kKeys, kSequence) - 1) + 1;
  for (int turn = 0, query = first; query < end; ++turn, query = first + turn / kGroupHeads * kQueries) {
    const int head = kv_head * kGroupHeads + turn % kGroupHeads;
    __syncthreads();  // all warps are done with the earlier queries
    copy_tile<kLanes, kQueries, kHeadDim, kDim, kPitch>(queries, qkv + (start + query) * kPitch + head * kHeadDim,
                                                        kSequence - query);
    copy_tile<kLanes, kQueries, kHeadDim, kDim, kOutPitch>(
        gradients, dout + (start + query) * kOutPitch + head * kHeadDim, kSequence - query);
    const long long line = (static_cast<long long>(batch) * kHeads + head) * kSequence + query;
    float row_lse[kColumns] = {}, row_delta[kColumns] = {};
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const int at = member + c * kTeam;
      if (query + at < kSequence) row_lse[c] = lse[line + at], row_delta[c] = delta[line + at];
    }
    wait_for_copies();
    __syncthreads();

    float scores[kRows][kColumns] = {}, dscores[kRows][kColumns] = {};  // [keys, queries]
    multiply_rows<kDim, kStride, kTeams>(scores, keys + team * kStride, queries);
    multiply_rows<kDim, kStride, kTeams>(dscores, values + team * kStride, gradients);
#pragma unroll
    for (int i = 0; i < kRows * kColumns; ++i) {
      const int r = i / kColumns, c = i % kColumns, row = team + r * kTeams, at = member + c * kTeam;
      const bool seen = first + row <= query + at && first + row >= mask.lo(query + at) && query + at < kSequence;
      float &p = scores[r][c], &ds = dscores[r][c];
      [[maybe_unused]] float bend = 1.0f;  // slope of the soft cap
      if constexpr (kSoftcap > 0) p = soft_cap(p, kSoftcap / kScale), bend = soft_cap_slope(p, kSoftcap / kScale);
      p = seen ? exp(p * kScale - row_lse[c]) : 0.0f;
      ds = p * (ds - row_delta[c]);
      if constexpr (kSoftcap > 0) ds *= bend;
      weights[row * kWeightStride + at] = p;
    }
    __syncwarp();  // a warp reads only its own rows of weights
    multiply_columns<kQueries, kWeightStride, kStride, kTeams>(dv, weights + team * kWeightStride, gradients);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kRows * kColumns; ++i)
      weights[(team + i / kColumns * kTeams) * kWeightStride + member + i % kColumns * kTeam] =
          dscores[i / kColumns][i % kColumns];
    __syncwarp();
    multiply_columns<kQueries, kWeightStride, kStride, kTeams>(dk, weights + team * kWeightStride, queries);
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int key = first + team + r * kTeams;
    if (key >= kSequence) continue;
    float* row = dqkv + (start + key) * kPitch;
    store_row<kHeadDim, kPitch>(dk[r], kScale, row + key_column);
    store_row<kHeadDim, kPitch>(dv[r], 1.0f, row + value_column);
  }
}

}  // namespace llmc
