// Gradient of attention_forward_scalar with respect to the queries, and delta = dot(dout, out) of each query for
// attention_backward_keys_scalar. Recomputes P = exp(score - lse); dS = P * (dout v^T - delta); dq = dS k /
// sqrt(kHeadDim).
//
// A block owns 64 queries of a head (32 of one wider than 64, 8 of one wider than 128). Keys and values pass through
// shared memory. There are no atomic sums, so equal runs give equal bits. Floor: 3 kSequence^2 kHeadDim FLOPs per head;
// qkv, dout, out and lse read once, dq and delta written once.
#include "device/cuda/scalar_tiles.h"
#include "device/group.h"
#include "params.h"

namespace llmc {

constexpr int kRows = rows_of_thread(kHeadDim);
constexpr int kTeams = kLanes / kTeam;
constexpr int kQueries = kRows * kTeams;             // of a block
constexpr int kColumns = kRows > 1 ? kRows / 2 : 1;  // keys of a thread at once
constexpr int kKeys = kColumns * kTeam;              // at once in shared memory
constexpr int kDim = padded_width(kHeadDim);
constexpr int kVectors = kDim / (4 * kTeam);          // columns of a thread, by four
constexpr int kStride = kDim + kRowPaddingOf<float>;  // of a row in shared memory
constexpr int kWeightStride = kKeys + kRowPaddingOf<float>;
constexpr int kTiles = (kSequence + kQueries - 1) / kQueries;
constexpr int kSequences = kBatch * kHeads;
constexpr int kGroupHeads = kHeads / kKvHeads;

/// dout, out [kBatch * kSequence, kOutPitch]; qkv, dqkv [kBatch * kSequence, kPitch]: dq is written; lse, delta
/// [kBatch, kHeads, kSequence].
LLMC_SCALAR_BOUNDS(kLanes)
LLMC_KERNEL
attention_backward_queries_scalar(const float* __restrict__ dout, const float* __restrict__ out,
                                  const float* __restrict__ qkv, const float* __restrict__ lse,
                                  float* __restrict__ dqkv, float* __restrict__ delta LLMC_FURTHER_OPERANDS) {
  __shared__ __align__(16) float queries[kQueries * kStride], gradients[kQueries * kStride];
  __shared__ __align__(16) float keys[kKeys * kStride], values[kKeys * kStride];
  __shared__ __align__(16) float weights[kQueries * kWeightStride];
  const int member = threadIdx.x % kTeam, team = threadIdx.x / kTeam;
  // The last queries have the most keys and are scheduled first, so that blocks end together.
  const int task = blockIdx.x, first = (kTiles - 1 - task / kSequences) * kQueries;
  const int end = min(first + kQueries, kSequence), batch = task % kSequences / kHeads, head = task % kHeads;
  const long long start = static_cast<long long>(batch) * kSequence;
  const float* key_rows = qkv + start * kPitch + (kHeads + head / kGroupHeads) * kHeadDim;
  copy_tile<kLanes, kQueries, kHeadDim, kDim, kPitch>(queries, qkv + (start + first) * kPitch + head * kHeadDim,
                                                      kSequence - first);
  copy_tile<kLanes, kQueries, kHeadDim, kDim, kOutPitch>(
      gradients, dout + (start + first) * kOutPitch + head * kHeadDim, kSequence - first);
  wait_for_copies();
  __syncthreads();

  const long long line = (static_cast<long long>(batch) * kHeads + head) * kSequence;
  float row_lse[kRows] = {}, row_delta[kRows] = {};  // delta: dot(dout, out)
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int at = team + r * kTeams, query = first + at;
    const float* outs = out + (start + query) * kOutPitch + head * kHeadDim;
    if (query < kSequence) {
      row_lse[r] = lse[line + query];
#pragma unroll
      for (int i = 0; i < 4 * kVectors; ++i) {
        const int column = 4 * (member + i / 4 * kTeam) + i % 4;
        if (column < kHeadDim) row_delta[r] = fma(gradients[at * kStride + column], outs[column], row_delta[r]);
      }
    }
    row_delta[r] = sum_of_team(row_delta[r]);
    if (member == 0 && query < kSequence) delta[line + query] = row_delta[r];
  }

  float dq[kRows][kVectors][4] = {};
  Mask mask = LLMC_MASK;
  for (int key = mask.first_tile(first, kKeys); key < end; key += kKeys) {
    __syncthreads();  // all warps are done with the earlier keys
    const float* from = key_rows + static_cast<long long>(key) * kPitch;
    copy_tile<kLanes, kKeys, kHeadDim, kDim, kPitch>(keys, from, kSequence - key);
    copy_tile<kLanes, kKeys, kHeadDim, kDim, kPitch>(values, from + kKvHeads * kHeadDim, kSequence - key);
    wait_for_copies();
    __syncthreads();

    float scores[kRows][kColumns] = {}, dscores[kRows][kColumns] = {};
    multiply_rows<kDim, kStride, kTeams>(scores, queries + team * kStride, keys);
    multiply_rows<kDim, kStride, kTeams>(dscores, gradients + team * kStride, values);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int row = team + r * kTeams, last = first + row - key, lo = mask.lo(first + row) - key;  // keys it sees
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const int at = member + c * kTeam;
        if constexpr (kSoftcap > 0) scores[r][c] = soft_cap(scores[r][c], kSoftcap / kScale);
        const float p = at >= lo && at <= last ? exp(scores[r][c] * kScale - row_lse[r]) : 0.0f;
        weights[row * kWeightStride + at] = p * (dscores[r][c] - row_delta[r]);
        if constexpr (kSoftcap > 0)
          weights[row * kWeightStride + at] *= soft_cap_slope(scores[r][c], kSoftcap / kScale);
      }
    }
    __syncwarp();  // a warp reads only its own rows of weights
    multiply_columns<kKeys, kWeightStride, kStride, kTeams>(dq, weights + team * kWeightStride, keys);
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int query = first + team + r * kTeams;
    if (query < kSequence)
      store_row<kHeadDim, kPitch>(dq[r], kScale, dqkv + (start + query) * kPitch + head * kHeadDim);
  }
}

}  // namespace llmc
