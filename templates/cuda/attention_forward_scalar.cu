// Causal attention in fp32 of packed q, k, v rows with grouped key and value heads, with an online softmax: Dao 2023
// (FlashAttention-2), without tensor cores, which do not have fp32.
//
// A block owns 64 queries of a head (32 of one wider than 64, 8 of one wider than 128). Keys and values pass through
// shared memory. Floor: 2 kSequence^2 kHeadDim FLOPs per head; qkv read once, out and lse written once.
#include "device/cuda/scalar_tiles.h"
#include "device/group.h"
#include "params.h"

namespace llmc {

constexpr int kRows = rows_of_thread(kHeadDim);
constexpr int kTeams = kLanes / kTeam;
constexpr int kQueries = kRows * kTeams;  // of a block
constexpr int kColumns = kRows;           // keys of a thread at once
constexpr int kKeys = kColumns * kTeam;   // at once in shared memory
constexpr int kDim = padded_width(kHeadDim);
constexpr int kStride = kDim + kRowPaddingOf<float>;  // of a row in shared memory
constexpr int kWeightStride = kKeys + kRowPaddingOf<float>;
constexpr int kTiles = (kSequence + kQueries - 1) / kQueries;
constexpr int kSequences = kBatch * kHeads;
constexpr int kGroupHeads = kHeads / kKvHeads;

/// qkv [kBatch * kSequence, kPitch] with rows of q [kHeads, kHeadDim], k and v [kKvHeads, kHeadDim], already rotated;
/// out [kBatch * kSequence, kOutPitch] = softmax(q k^T / sqrt(kHeadDim)) v; lse [kBatch, kHeads, kSequence], natural.
LLMC_SCALAR_BOUNDS(kLanes)
LLMC_KERNEL
attention_forward_scalar(const float* __restrict__ qkv, float* __restrict__ out,
                         float* __restrict__ lse LLMC_FURTHER_OPERANDS) {
  __shared__ __align__(16) float queries[kQueries * kStride];
  __shared__ __align__(16) float keys[kKeys * kStride], values[kKeys * kStride];
  __shared__ __align__(16) float weights[kQueries * kWeightStride];
  const int member = threadIdx.x % kTeam, team = threadIdx.x / kTeam;
  // The last queries have the most keys and are scheduled first, so that blocks end together.
  const int task = blockIdx.x, first = (kTiles - 1 - task / kSequences) * kQueries;
  const int end = min(first + kQueries, kSequence), batch = task % kSequences / kHeads, head = task % kHeads;
  const float* rows = qkv + static_cast<long long>(batch) * kSequence * kPitch;
  const float* key_rows = rows + (kHeads + head / kGroupHeads) * kHeadDim;
  copy_tile<kLanes, kQueries, kHeadDim, kDim, kPitch>(
      queries, rows + static_cast<long long>(first) * kPitch + head * kHeadDim, kSequence - first);

  float sums[kRows][kDim / (4 * kTeam)][4] = {};  // of exp(score - highest) * value
  float highest[kRows], total[kRows] = {};
#pragma unroll
  for (int r = 0; r < kRows; ++r) highest[r] = -1e30f;
  Mask mask = LLMC_MASK;
  for (int key = mask.first_tile(first, kKeys); key < end; key += kKeys) {
    __syncthreads();  // all warps are done with the earlier keys
    const float* from = key_rows + static_cast<long long>(key) * kPitch;
    copy_tile<kLanes, kKeys, kHeadDim, kDim, kPitch>(keys, from, kSequence - key);
    copy_tile<kLanes, kKeys, kHeadDim, kDim, kPitch>(values, from + kKvHeads * kHeadDim, kSequence - key);
    wait_for_copies();
    __syncthreads();

    float scores[kRows][kColumns] = {};
    multiply_rows<kDim, kStride, kTeams>(scores, queries + team * kStride, keys);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int row = team + r * kTeams, last = first + row - key, lo = mask.lo(first + row) - key;  // keys it sees
      float top = highest[r];
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const int at = member + c * kTeam;
        scores[r][c] *= kScale;
        if constexpr (kSoftcap > 0) scores[r][c] = soft_cap(scores[r][c], kSoftcap);
        if (at >= lo && at <= last) top = max(top, scores[r][c]);
      }
      top = max_of_team(top);
      const float shrink = exp(highest[r] - top);
      highest[r] = top;
      total[r] *= shrink;
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const int at = member + c * kTeam;
        const float power = at >= lo && at <= last ? exp(scores[r][c] - top) : 0.0f;
        total[r] += power;
        weights[row * kWeightStride + at] = power;
      }
#pragma unroll
      for (int i = 0; i < kDim / kTeam; ++i) sums[r][i / 4][i % 4] *= shrink;
    }
    __syncwarp();  // a warp reads only its own rows of weights
    multiply_columns<kKeys, kWeightStride, kStride, kTeams>(sums, weights + team * kWeightStride, values);
  }

  float* line = lse + (static_cast<long long>(batch) * kHeads + head) * kSequence;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int row = first + team + r * kTeams;
    const float sum = sum_of_team(total[r]);
    if (row >= kSequence) continue;
    if (member == 0) line[row] = highest[r] + log(sum);
    store_row<kHeadDim, kOutPitch>(
        sums[r], 1.0f / sum, out + (static_cast<long long>(batch) * kSequence + row) * kOutPitch + head * kHeadDim);
  }
}

}  // namespace llmc
