// Matrices of bf16 for tensor cores: in shared memory, and in the registers of a warp ("fragments").
//
// A fragment is [16, 16]: four words a lane, as mma_bf16_16x8x16() has its left operand. A result is [16, 8 * kTiles]
// fp32, kTiles times four numbers a lane. Lane 4 r + c has rows r and r + 8, and pairs of columns from 2 c.
#pragma once

#include "device/cuda/vectors.h"

/// Launch bounds of kernels on tiles of heads. ptxas trades registers for one more block an SM; at widths that are no
/// multiple of 64 it spills some bytes to get there, which a bound of one block keeps it from.
#define LLMC_TILE_BOUNDS(lanes, width) __launch_bounds__(lanes, (width) % 64 ? 1 : 0)

namespace llmc {

/// Elements after each row in shared memory: row pitches of an odd number of 16 bytes, so that eight rows of a matrix
/// lie in different banks.
constexpr int kRowPadding = 8;

/// The largest access, in elements, that divides rows of kWidth elements kPitch apart.
template <int kWidth, int kPitch>
constexpr int kAccessWidth = kWidth % 8 == 0 && kPitch % 8 == 0   ? 8
                             : kWidth % 4 == 0 && kPitch % 4 == 0 ? 4
                                                                  : 2;

/// Copies kRows rows of kWidth elements, kPitch apart, into rows of kPadded, kPadded + kRowPadding apart, by all
/// threads of the block. Columns past kWidth and rows past `count` become zero.
template <int kThreads, int kRows, int kWidth, int kPadded, int kPitch>
__device__ __forceinline__ void load_tile(bf16* tile, const bf16* from, int count) {
  constexpr int kAccess = kAccessWidth<kWidth, kPitch>;
  constexpr int kAccesses = kPadded / kAccess;  // of a row
#pragma unroll 2
  for (int i = threadIdx.x; i < kRows * kAccesses; i += kThreads) {
    const int row = i / kAccesses, column = i % kAccesses * kAccess;
    unsigned words[kAccess / 2] = {};
    if (row < count && column < kWidth) {
      const bf16* source = from + static_cast<long long>(row) * kPitch + column;
      if constexpr (kAccess == 2) {
        words[0] = *reinterpret_cast<const unsigned*>(source);
      } else {
        read_aligned(source, words);
      }
    }
    bf16* target = tile + row * (kPadded + kRowPadding) + column;
    if constexpr (kAccess == 2) {
      *reinterpret_cast<unsigned*>(target) = words[0];
    } else {
      write_aligned(target, words);
    }
  }
}

/// This lane's pair of bf16 of a matrix with `count` rows of kWidth, kPitch apart; zero outside.
template <int kWidth, int kPitch>
__device__ __forceinline__ unsigned load_pair(const bf16* from, int row, int column, int count) {
  if (row >= count || column >= kWidth) return 0;
  return *reinterpret_cast<const unsigned*>(from + static_cast<long long>(row) * kPitch + column);
}

/// The fragment at `column` of rows [0, 16) of a matrix in global memory.
template <int kWidth, int kPitch>
__device__ __forceinline__ void load_fragment(unsigned (&a)[4], const bf16* from, int column, int count) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    a[i] = load_pair<kWidth, kPitch>(from, lane / 4 + i % 2 * 8, column + lane % 4 * 2 + i / 2 * 8, count);
}

/// The fragment at `from`, in rows kStride apart in shared memory.
template <int kStride>
__device__ __forceinline__ void load_fragment(unsigned (&a)[4], const bf16* from) {
  const int lane = threadIdx.x % 32;
  load_matrix_x4(a, from + lane % 16 * kStride + lane / 16 * 8);
}

/// Columns [16 step, +16) of a result as a fragment, rounded to bf16.
template <int kTiles>
__device__ __forceinline__ void round_fragment(unsigned (&a)[4], const float (&d)[kTiles][4], int step) {
#pragma unroll
  for (int i = 0; i < 4; ++i) a[i] = bf16_pair(d[2 * step + i / 2][i % 2 * 2], d[2 * step + i / 2][i % 2 * 2 + 1]);
}

/// d += a b^T, b [8 * kTiles, 16] in shared memory, rows kStride apart.
template <int kStride, int kTiles>
__device__ __forceinline__ void multiply_rows(float (&d)[kTiles][4], const unsigned (&a)[4], const bf16* b) {
  const int lane = threadIdx.x % 32;
  const bf16* row = b + (lane % 8 + lane / 16 * 8) * kStride + lane / 8 % 2 * 8;
#pragma unroll
  for (int n = 0; n < kTiles; n += 2) {
    unsigned r[4];
    load_matrix_x4(r, row + n * 8 * kStride);
    mma_bf16_16x8x16(d[n], a, {r[0], r[1]});
    mma_bf16_16x8x16(d[n + 1], a, {r[2], r[3]});
  }
}

/// d += a b, b [16, 8 * kTiles] in shared memory, rows kStride apart.
template <int kStride, int kTiles>
__device__ __forceinline__ void multiply_columns(float (&d)[kTiles][4], const unsigned (&a)[4], const bf16* b) {
  const int lane = threadIdx.x % 32;
  const bf16* row = b + lane % 16 * kStride + lane / 16 * 8;
#pragma unroll
  for (int n = 0; n < kTiles; n += 2) {
    unsigned r[4];
    load_matrix_x4_transposed(r, row + n * 8);
    mma_bf16_16x8x16(d[n], a, {r[0], r[1]});
    mma_bf16_16x8x16(d[n + 1], a, {r[2], r[3]});
  }
}

/// Writes d * `factor`, with a factor for rows r and one for rows r + 8, to columns from `column` of a matrix with
/// `count` rows of kWidth, kPitch apart.
template <int kWidth, int kPitch, int kTiles>
__device__ __forceinline__ void store_result(const float (&d)[kTiles][4], const float (&factor)[2], bf16* to,
                                             int column, int count) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = lane / 4 + half * 8, at = column + n * 8 + lane % 4 * 2;
      if (row < count && at < kWidth)
        *reinterpret_cast<unsigned*>(to + static_cast<long long>(row) * kPitch + at) =
            bf16_pair(d[n][half * 2] * factor[half], d[n][half * 2 + 1] * factor[half]);
    }
  }
}

/// The sum, and the maximum, over the four lanes that share a row.
__device__ __forceinline__ float sum_of_row(float v) {
  v += __shfl_xor_sync(0xffffffffu, v, 1);
  return v + __shfl_xor_sync(0xffffffffu, v, 2);
}
__device__ __forceinline__ float max_of_row(float v) {
  v = max(v, __shfl_xor_sync(0xffffffffu, v, 1));
  return max(v, __shfl_xor_sync(0xffffffffu, v, 2));
}

}  // namespace llmc
