// Products of fp32 matrices in shared memory, by multiply-adds outside of tensor cores, which do not have fp32.
//
// Eight threads, a team, share rows of the left operand and of a result: team t of kTeams has the kRows rows t, t +
// kTeams, ... A warp has four teams, whose rows lie in different banks, and no other warp has them. The columns of a
// result are divided among the threads of a team: one at a time if they are rows of the right operand, else four.
#pragma once

#include "device/cuda/tiles.h"

/// Launch bounds of kernels on such tiles. Without the bound of one block ptxas spills some bytes for one more per SM.
#define LLMC_SCALAR_BOUNDS(lanes) __launch_bounds__(lanes, 1)

namespace llmc {

constexpr int kTeam = 8;

/// Rows of a thread. Results of more would not fit into registers, operands of more not into shared memory.
constexpr int rows_of_thread(int width) { return width <= 64 ? 4 : width <= 128 ? 2 : 1; }

/// Columns of a tile, so that each thread has whole vectors.
constexpr int padded_width(int width) { return (width + 4 * kTeam - 1) / (4 * kTeam) * 4 * kTeam; }

/// d += a b^T, b [kColumns * kTeam, kWidth], rows of both kStride apart. `a` is the thread's first row.
template <int kWidth, int kStride, int kTeams, int kRows, int kColumns>
__device__ __forceinline__ void multiply_rows(float (&d)[kRows][kColumns], const float* a, const float* b) {
  const float* right = b + threadIdx.x % kTeam * kStride;
#pragma unroll 4
  for (int k = 0; k < kWidth; k += 4) {
    float4 x[kRows], y[kColumns];
#pragma unroll
    for (int r = 0; r < kRows; ++r) x[r] = *reinterpret_cast<const float4*>(a + r * kTeams * kStride + k);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) y[c] = *reinterpret_cast<const float4*>(right + c * kTeam * kStride + k);
#pragma unroll
    for (int i = 0; i < kRows * kColumns; ++i) {
      const int r = i / kColumns, c = i % kColumns;
      d[r][c] = fma(x[r].x, y[c].x, d[r][c]);
      d[r][c] = fma(x[r].y, y[c].y, d[r][c]);
      d[r][c] = fma(x[r].z, y[c].z, d[r][c]);
      d[r][c] = fma(x[r].w, y[c].w, d[r][c]);
    }
  }
}

/// d += a b, b [kInner, 4 kVectors kTeam] with rows kStride apart, rows of `a` kInnerStride apart. `a` is the thread's
/// first row.
template <int kInner, int kInnerStride, int kStride, int kTeams, int kRows, int kVectors>
__device__ __forceinline__ void multiply_columns(float (&d)[kRows][kVectors][4], const float* a, const float* b) {
  const float* right = b + threadIdx.x % kTeam * 4;
#pragma unroll
  for (int k = 0; k < kInner; k += 4) {
    float x[kRows][4];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float4 four = *reinterpret_cast<const float4*>(a + r * kTeams * kInnerStride + k);
      x[r][0] = four.x, x[r][1] = four.y, x[r][2] = four.z, x[r][3] = four.w;
    }
#pragma unroll
    for (int i = 0; i < 4 * kVectors; ++i) {
      const int inner = i / kVectors, v = i % kVectors;
      const float4 y = *reinterpret_cast<const float4*>(right + (k + inner) * kStride + v * 4 * kTeam);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        d[r][v][0] = fma(x[r][inner], y.x, d[r][v][0]);
        d[r][v][1] = fma(x[r][inner], y.y, d[r][v][1]);
        d[r][v][2] = fma(x[r][inner], y.z, d[r][v][2]);
        d[r][v][3] = fma(x[r][inner], y.w, d[r][v][3]);
      }
    }
  }
}

/// Writes a row of a result times `factor` to a row of kWidth elements, kPitch apart from the next.
template <int kWidth, int kPitch, int kVectors>
__device__ __forceinline__ void store_row(const float (&d)[kVectors][4], float factor, float* row) {
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int column = 4 * (threadIdx.x % kTeam + v * kTeam);
    if constexpr (kAccessWidth<float, kWidth, kPitch> == 4) {
      if (column < kWidth)
        *reinterpret_cast<float4*>(row + column) =
            make_float4(d[v][0] * factor, d[v][1] * factor, d[v][2] * factor, d[v][3] * factor);
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (column + e < kWidth) row[column + e] = d[v][e] * factor;
    }
  }
}

/// Sum and maximum over a team.
__device__ __forceinline__ float sum_of_team(float v) {
#pragma unroll
  for (int apart = 1; apart < kTeam; apart *= 2) v += __shfl_xor_sync(0xffffffffu, v, apart);
  return v;
}
__device__ __forceinline__ float max_of_team(float v) {
#pragma unroll
  for (int apart = 1; apart < kTeam; apart *= 2) v = max(v, __shfl_xor_sync(0xffffffffu, v, apart));
  return v;
}

}  // namespace llmc
