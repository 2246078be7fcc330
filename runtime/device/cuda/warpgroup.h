// Products by warpgroups of four warps, for sm_90a. The left operand is in fragments, the right one is a tile in shared
// memory, [64, 64] bf16 in the layout of wgmma_64x64x16().
#pragma once

#include "device/cuda/fragments.h"

namespace llmc {

constexpr int kTile = 64;  // rows and columns

/// Starts copying kTile columns of `count` rows, kPitch apart, with all kThreads threads of the block; zeros below.
template <int kThreads, int kPitch>
__device__ __forceinline__ void copy_swizzled(bf16* tile, const bf16* from, int count) {
  const int row = threadIdx.x / 8, piece = threadIdx.x % 8;
  const bf16* source = from + row * kPitch + piece * 8;
  bf16* target = tile + row * kTile + (piece ^ row % 8) * 8;
#pragma unroll
  for (int i = 0; i < kTile; i += kThreads / 8)
    copy_async<16>(target + i * kTile, source + i * kPitch, row + i < count);
}

/// Starts d = a tile^T, a [64, 64].
__device__ __forceinline__ void begin_rows(float (&d)[8][4], const unsigned (&a)[4][1][4], const bf16* tile) {
#pragma unroll
  for (int s = 0; s < 4; ++s) wgmma_64x64x16<false>(d, a[s][0], tile, s, s > 0);
  wgmma_commit();
}

/// Starts d += a tile, a [64, 64].
__device__ __forceinline__ void begin_columns(float (&d)[8][4], const unsigned (&a)[4][1][4], const bf16* tile) {
#pragma unroll
  for (int s = 0; s < 4; ++s) wgmma_64x64x16<true>(d, a[s][0], tile, s, true);
  wgmma_commit();
}

/// Converts a result to a left operand, rounded to bf16.
__device__ __forceinline__ void round_result(unsigned (&a)[4][1][4], const float (&d)[8][4]) {
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    a[n / 2][0][n % 2 * 2] = bf16_pair(d[n][0], d[n][1]);
    a[n / 2][0][n % 2 * 2 + 1] = bf16_pair(d[n][2], d[n][3]);
  }
}

}  // namespace llmc
