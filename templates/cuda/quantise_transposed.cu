// quantise_transposed: a weight's rows rounded to e4m3 as quantise rounds them, and the codes transposed: fp8 products
// of sm_90 read both operands along the sum.
//
// The blocks of a cluster share rows. Each finds the largest magnitudes in its columns and tells the others.
//
// Floor: 2 bytes read and 1 written an element; with kStraight 2 written. A block reads its part twice, the second time
// from a cache.
#include "device/cuda/transposed_tile.h"
#include "device/group.h"
#include "params.h"

namespace llmc {

constexpr int kVector = 8;     // bf16 numbers in 16 bytes
constexpr int kTileRows = 64;  // two sectors of memory of the result
constexpr int kFours = kTileRows / 4;
constexpr int kVectors = kLanes / kFours;  // a lane has four rows of a vector
constexpr int kTileCols = kVectors * kVector;
constexpr int kAcross = 8, kDown = 32 / kAcross;  // vectors and fours of rows that a warp has: whole lines of memory

/// The larger of each element.
__device__ __forceinline__ float4 larger(float4 a, float4 b) {
  return make_float4(max(a.x, b.x), max(a.y, b.y), max(a.z, b.z), max(a.w, b.w));
}

/// Writes codes [4, kVector] of a lane, 4 rows in a word, as they lie: `to` is their first place. Two neighbours
/// exchange halves, so that each has 16 codes of two rows. For all lanes of a warp.
__device__ __forceinline__ void write_straight(const unsigned (&codes)[kVector], e4m3* to, bool exist) {
  unsigned part[2][4] = {{codes[0], codes[1], codes[2], codes[3]}, {codes[4], codes[5], codes[6], codes[7]}};
  transpose_bytes(part[0]), transpose_bytes(part[1]);
  const bool odd = threadIdx.x % 2;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    unsigned own[2], given[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      own[half] = odd ? part[half][r + 2] : part[half][r];
      given[half] = __shfl_xor_sync(0xffffffffu, odd ? part[half][r] : part[half][r + 2], 1);
    }
    const unsigned words[4] = {odd ? given[0] : own[0], odd ? given[1] : own[1], odd ? own[0] : given[0],
                               odd ? own[1] : given[1]};
    if (exist) write_aligned(to + static_cast<long long>(odd ? r + 2 : r) * kPitch - (odd ? kVector : 0), words);
  }
}

/// w [kHeight, kWidth], both multiples of 16; y [kWidth, kHeight]: codes; scales [kHeight] of the rows of w; ones
/// [kWidth]: 1; with kStraight codes: the same as they lie in w, with scales
/// code_scales [kHeight], else null.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL quantise_transposed(const bf16* __restrict__ w, e4m3* __restrict__ y, bf16* __restrict__ scales,
                                float* __restrict__ ones, e4m3* __restrict__ codes, float* __restrict__ code_scales) {
  __shared__ float4 of_block[kCluster][kFours];
  __shared__ float4 of_warp[kVectors / kAcross][kFours];
  __shared__ TransposedTile<kTileRows, kTileCols, kVector> tile;
  cluster_arrive_relaxed();  // signals that this block has started
  const int rank = cluster_rank(), first = blockIdx.x / kCluster * kTileRows, rows = min(kTileRows, kHeight - first);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, across = warp / (kFours / kDown);
  const int four = warp % (kFours / kDown) * kDown + lane / kAcross, row = 4 * four;
  const int col = (across * kAcross + lane % kAcross) * kVector;
  const bf16* const from = w + static_cast<long long>(first + row) * kPitch;

  const auto read = [&](int begin, float(&value)[4][kVector]) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      unsigned words[kVector / 2];
      read_aligned(from + static_cast<long long>(r) * kPitch + begin + col, words);
      unpack<bf16>(words, value[r]);
    }
  };
  const auto exists = [&](int begin) { return row < rows && begin + col < kWidth; };

  float4 largest = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 2
  for (int begin = rank * kTileCols; begin < kWidth; begin += kCluster * kTileCols) {
    if (!exists(begin)) continue;
    float value[4][kVector];
    read(begin, value);
#pragma unroll
    for (int e = 0; e < kVector; ++e)
      largest = larger(largest, make_float4(magnitude(value[0][e]), magnitude(value[1][e]), magnitude(value[2][e]),
                                            magnitude(value[3][e])));
  }
#pragma unroll
  for (int distance = kAcross / 2; distance > 0; distance /= 2)
    largest = larger(largest, make_float4(__shfl_xor_sync(0xffffffffu, largest.x, distance),
                                          __shfl_xor_sync(0xffffffffu, largest.y, distance),
                                          __shfl_xor_sync(0xffffffffu, largest.z, distance),
                                          __shfl_xor_sync(0xffffffffu, largest.w, distance)));
  if (lane % kAcross == 0) of_warp[across][four] = largest;
  __syncthreads();
  cluster_wait();
  if (threadIdx.x < kCluster * kFours) {
    const int its_four = threadIdx.x % kFours;
    float4 of_all = of_warp[0][its_four];
#pragma unroll
    for (int i = 1; i < kVectors / kAcross; ++i) of_all = larger(of_all, of_warp[i][its_four]);
    cluster_write(&of_block[rank][its_four], threadIdx.x / kFours, of_all);
  }
  cluster_arrive();
  cluster_wait();

  largest = of_block[0][four];
#pragma unroll
  for (int i = 1; i < kCluster; ++i) largest = larger(largest, of_block[i][four]);
  const float scale[4] = {e4m3_weight_scale(largest.x), e4m3_weight_scale(largest.y), e4m3_weight_scale(largest.z),
                          e4m3_weight_scale(largest.w)};
  float inverse[4];
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    inverse[r] = 1.0f / scale[r];
    if (rank != 0 || col != 0 || row >= rows) continue;
    scales[first + row + r] = from_float<bf16>(scale[r]);
    if constexpr (kStraight) code_scales[first + row + r] = scale[r];
  }
  for (int i = blockIdx.x * kLanes + threadIdx.x; i < kWidth; i += gridDim.x * kLanes) ones[i] = 1.0f;

  for (int begin = rank * kTileCols; begin < kWidth; begin += kCluster * kTileCols) {
    unsigned four[kVector] = {};  // of four rows
    if (exists(begin)) {
      float value[4][kVector];
      read(begin, value);
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        four[e] = four_codes<e4m3>(value[0][e] * inverse[0], value[1][e] * inverse[1], value[2][e] * inverse[2],
                                   value[3][e] * inverse[3]);
        tile.set(row, col + e, four[e]);
      }
    }
    if constexpr (kStraight)
      write_straight(four, codes + static_cast<long long>(first + row) * kPitch + begin + col, exists(begin));
    __syncthreads();
    tile.write<kLanes>(y + static_cast<long long>(begin) * kHeight + first, kHeight, rows,
                       min(kTileCols, kWidth - begin));
    __syncthreads();  // before the codes just read are overwritten
  }
}

}  // namespace llmc
