// Matrices of bf16 or fp16 for tensor cores: in shared memory, and in the registers of a warp ("fragments").
//
// A fragment is [16, 16]: four words per lane, the layout of mma_bf16_16x8x16()'s left operand. A result is [16, 8 *
// kTiles] fp32, kTiles times four numbers per lane. Lane 4 r + c holds rows r and r + 8, and pairs of columns from 2 c
// on. A warp has kRowTiles of either, stacked by rows.
#pragma once

#include "device/cuda/tiles.h"

/// Launch bounds of kernels on tiles of heads. ptxas trades registers for one more block per SM. At widths that are no
/// multiple of 64 that spills some bytes, which a bound of one block avoids.
#define LLMC_TILE_BOUNDS(lanes, width) __launch_bounds__(lanes, (width) % 64 ? 1 : 0)

namespace llmc {

/// Padding elements per row in shared memory.
constexpr int kRowPadding = kRowPaddingOf<bf16>;

/// Row tiles per warp. Two share loads of the right operand, which halves shared-memory traffic. For heads wider than
/// 64 the results of two would not fit into registers.
constexpr int row_tiles(int width) { return width <= 64 ? 2 : 1; }

/// Score of a masked key.
constexpr float kNothing = -1e30f;

/// exp(score * kScale - lse) is 2^(score * kScale * kLog2e - lse * kLog2e).
constexpr float kLog2e = 1.44269504f;

/// Loads this lane's pair of a matrix with `count` rows of kWidth, kPitch apart; zero outside.
template <int kWidth, int kPitch, class T>
__device__ __forceinline__ unsigned load_pair(const T* from, int row, int column, int count) {
  if (row >= count || column >= kWidth) return 0;
  return *reinterpret_cast<const unsigned*>(from + static_cast<long long>(row) * kPitch + column);
}

/// Loads the fragments at `column` of rows [0, 16 kRowTiles) of a matrix in global memory.
template <int kWidth, int kPitch, int kRowTiles, class T>
__device__ __forceinline__ void load_fragments(unsigned (&a)[kRowTiles][4], const T* from, int column, int count) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      a[m][i] =
          load_pair<kWidth, kPitch>(from, 16 * m + lane / 4 + i % 2 * 8, column + lane % 4 * 2 + i / 2 * 8, count);
  }
}

/// Rounds a result's eight columns into columns [8 n, +8) of a fragment.
template <class T = bf16, int kRowTiles>
__device__ __forceinline__ void round_columns(unsigned (&a)[kRowTiles][4], const float (&d)[kRowTiles][4], int n) {
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
    a[m][2 * n] = rounded_pair<T>(d[m][0], d[m][1]);
    a[m][2 * n + 1] = rounded_pair<T>(d[m][2], d[m][3]);
  }
}

/// Adds the products of the elements of rows r and of rows r + 8 for each row tile.
template <class T = bf16, int kRowTiles>
__device__ __forceinline__ void add_products(float (&sum)[kRowTiles][2], const unsigned (&a)[kRowTiles][4],
                                             const unsigned (&b)[kRowTiles][4]) {
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
    float x[8], y[8];
    unpack<T>(a[m], x);
    unpack<T>(b[m], y);
#pragma unroll
    for (int e = 0; e < 8; ++e) sum[m][e / 2 % 2] = fma(x[e], y[e], sum[m][e / 2 % 2]);
  }
}

/// Masks scores of eight columns, starting at `query` and `key`: kNothing for keys after their query. kTransposed: rows
/// are keys, columns are queries.
template <bool kTransposed, int kRowTiles>
__device__ __forceinline__ void mask_later(float (&scores)[kRowTiles][4], int query, int key) {
  const int lane = threadIdx.x % 32, apart = lane / 4 - lane % 4 * 2;  // row minus column of the lane's first score
  keep_branch();
#pragma unroll
  for (int i = 0; i < 4 * kRowTiles; ++i) {
    const int more = i / 2 * 8 - i % 2;
    const bool later = kTransposed ? apart + more > query - key : apart + more < key - query;
    if (later) scores[i / 4][i % 4] = kNothing;
  }
}

/// Masks keys before those that their query sees. They become less than kNothing, so that they get no weight in a row
/// whose highest score is still kNothing.
template <bool kTransposed, int kRowTiles>
__device__ __forceinline__ void mask_earlier(float (&scores)[kRowTiles][4], int query, int key, Mask mask) {
  const int row = threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;  // of the lane's first score
  keep_branch();
#pragma unroll
  for (int i = 0; i < 4 * kRowTiles; ++i) {
    const int r = row + i / 2 * 8, c = column + i % 2;
    const bool earlier = kTransposed ? query + c > mask.hi(key + r) : key + c < mask.lo(query + r);
    if (earlier) scores[i / 4][i % 4] = 2 * kNothing;
  }
}

/// mma_bf16_16x8x16() or mma_f16_16x8x16().
template <class T>
__device__ __forceinline__ void multiply_tiles(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  if constexpr (is_fp16<T>)
    mma_f16_16x8x16(d, a, b);
  else
    mma_bf16_16x8x16(d, a, b);
}

/// d += a b^T, a [16 kRowTiles, 16 kSteps], b [8, 16 kSteps] in shared memory, rows kStride apart.
template <int kStride, int kSteps, int kRowTiles, class T>
__device__ __forceinline__ void multiply_rows(float (&d)[kRowTiles][4], const unsigned (&a)[kSteps][kRowTiles][4],
                                              const T* b) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int s = 0; s < kSteps; s += 2) {
    const bool two = s + 1 < kSteps;
    unsigned r[4];  // of two steps, or of the last one twice
    load_matrix_x4(r, b + lane % 8 * kStride + (two ? lane / 8 : lane / 8 % 2) * 8 + 16 * s);
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      multiply_tiles<T>(d[m], a[s][m], {r[0], r[1]});
      if (two) multiply_tiles<T>(d[m], a[s + two][m], {r[2], r[3]});
    }
  }
}

/// d += a b, b [16, 8 * kTiles] in shared memory, rows kStride apart. Each part of b is loaded once for all row tiles.
template <int kStride, int kRowTiles, int kTiles, class T>
__device__ __forceinline__ void multiply_columns(float (&d)[kRowTiles][kTiles][4], const unsigned (&a)[kRowTiles][4],
                                                 const T* b) {
  const int lane = threadIdx.x % 32;
  const T* row = b + lane % 16 * kStride + lane / 16 * 8;
#pragma unroll
  for (int n = 0; n < kTiles; n += 2) {
    unsigned r[4];
    load_matrix_x4_transposed(r, row + n * 8);
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      multiply_tiles<T>(d[m][n], a[m], {r[0], r[1]});
      multiply_tiles<T>(d[m][n + 1], a[m], {r[2], r[3]});
    }
  }
}

/// Writes d * `factor` to columns from `column` of a matrix with `count` rows of kWidth, kPitch apart. There is one
/// factor for rows r and one for rows r + 8 of each row tile.
template <int kWidth, int kPitch, int kRowTiles, int kTiles, class T>
__device__ __forceinline__ void store_result(const float (&d)[kRowTiles][kTiles][4],
                                             const float (&factor)[kRowTiles][2], T* to, int column, int count) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = 16 * m + lane / 4 + half * 8, at = column + n * 8 + lane % 4 * 2;
        const float f = factor[m][half];
        if (row < count && at < kWidth)
          *reinterpret_cast<unsigned*>(to + static_cast<long long>(row) * kPitch + at) =
              rounded_pair<T>(d[m][n][half * 2] * f, d[m][n][half * 2 + 1] * f);
      }
    }
  }
}

/// Same with one factor for all rows.
template <int kWidth, int kPitch, int kRowTiles, int kTiles, class T>
__device__ __forceinline__ void store_result(const float (&d)[kRowTiles][kTiles][4], float factor, T* to, int column,
                                             int count) {
  float factors[kRowTiles][2];
#pragma unroll
  for (int i = 0; i < 2 * kRowTiles; ++i) factors[i / 2][i % 2] = factor;
  store_result<kWidth, kPitch>(d, factors, to, column, count);
}

/// Sum and maximum over the four lanes that share a row.
__device__ __forceinline__ float sum_of_row(float v) {
  v += __shfl_xor_sync(0xffffffffu, v, 1);
  return v + __shfl_xor_sync(0xffffffffu, v, 2);
}
__device__ __forceinline__ float max_of_row(float v) {
  v = max(v, __shfl_xor_sync(0xffffffffu, v, 1));
  return max(v, __shfl_xor_sync(0xffffffffu, v, 2));
}

}  // namespace llmc
