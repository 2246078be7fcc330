// Products by warpgroups of four warps, for sm_90a. Rows of a head are padded with zeros to a multiple of 64 columns,
// which are slices of 64. A tile is 64 rows of one slice in shared memory, [64, 64] bf16 in the layout of
// wgmma_64x64x16(); the slices of equal rows follow each other. A left operand is in fragments, or such tiles too.
#pragma once

#include "device/cuda/block_memory.h"
#include "device/cuda/fragments.h"

namespace llmc {

constexpr int kTile = 64;                     // rows and columns
constexpr int kTileElements = kTile * kTile;  // of a slice

/// Slices of a head of kWidth columns.
template <int kWidth>
constexpr int kSlicesOf = (kWidth + kTile - 1) / kTile;

/// Starts copying `count` rows of kWidth, kPitch apart, to tiles with all kThreads threads of the block; zeros below.
template <int kThreads, int kWidth, int kPitch>
__device__ __forceinline__ void copy_swizzled(bf16* tiles, const bf16* from, int count) {
  static_assert(kWidth % 8 == 0 && kPitch % 8 == 0, "16-byte copies");
  const int row = threadIdx.x / 8, piece = threadIdx.x % 8;
  const bf16* source = from + row * kPitch + piece * 8;
  bf16* target = tiles + row * kTile + (piece ^ row % 8) * 8;
#pragma unroll
  for (int s = 0; s < kSlicesOf<kWidth>; ++s) {
    const bool inside = kWidth % kTile == 0 || s * kTile + piece * 8 < kWidth;
#pragma unroll
    for (int i = 0; i < kTile; i += kThreads / 8)
      copy_async<16>(target + s * kTileElements + i * kTile, source + s * kTile + i * kPitch,
                     inside && row + i < count);
  }
}

/// Loads `count` rows of kWidth, kPitch apart, 16 by each warp, as a left operand.
template <int kWidth, int kPitch>
__device__ __forceinline__ void load_left(unsigned (&a)[4 * kSlicesOf<kWidth>][1][4], const bf16* from, int count) {
#pragma unroll
  for (int s = 0; s < 4 * kSlicesOf<kWidth>; ++s) load_fragments<kWidth, kPitch>(a[s], from, 16 * s, count);
}

/// Starts d = a b^T, a [64, 16 kSteps] in fragments, b in tiles.
template <int kSteps>
__device__ __forceinline__ void begin_rows(float (&d)[8][4], const unsigned (&a)[kSteps][1][4], const bf16* b) {
#pragma unroll
  for (int s = 0; s < kSteps; ++s) wgmma_64x64x16<false>(d, a[s][0], b + s / 4 * kTileElements, s % 4, s > 0);
  wgmma_commit();
}

/// Starts d = a b^T, both of kSlices in tiles.
template <int kSlices>
__device__ __forceinline__ void begin_rows(float (&d)[8][4], const bf16* a, const bf16* b) {
#pragma unroll
  for (int s = 0; s < 4 * kSlices; ++s)
    wgmma_64x64x16(d, a + s / 4 * kTileElements, b + s / 4 * kTileElements, s % 4, s > 0);
  wgmma_commit();
}

/// Starts d += a b, a [64, 64] in fragments, b in tiles.
template <int kSlices>
__device__ __forceinline__ void begin_columns(float (&d)[kSlices][1][8][4], const unsigned (&a)[4][1][4],
                                              const bf16* b) {
#pragma unroll
  for (int s = 0; s < 4 * kSlices; ++s)
    wgmma_64x64x16<true>(d[s / 4][0], a[s % 4][0], b + s / 4 * kTileElements, s % 4, true);
  wgmma_commit();
}

/// Waits for all products except those of the last kLater groups; `d` is a result of one of them.
template <int kLater, int kSlices>
__device__ __forceinline__ void wgmma_wait(float (&d)[kSlices][1][8][4]) {
#pragma unroll
  for (int s = 0; s < kSlices; ++s) wgmma_wait<kLater>(d[s][0]);
}

/// Masks the keys of a tile that come after their query, as mask_later() of fragments.h.
template <bool kTransposed>
__device__ __forceinline__ void mask_later(float (&scores)[8][4], int query, int key) {
#pragma unroll
  for (int n = 0; n < 8; ++n)
    mask_later<kTransposed>(reinterpret_cast<float(&)[1][4]>(scores[n]), query + (kTransposed ? 8 * n : 0),
                            key + (kTransposed ? 0 : 8 * n));
}

/// Masks scores of a tile from `column` on that are outside of a row's bound, one for rows r and one for rows r + 8 of
/// a warp: columns before it, or after it with kAfter. They become less than kNothing, so that they get no weight in a
/// row whose highest score is still kNothing.
template <bool kAfter>
__device__ __forceinline__ void mask_bounded(float (&scores)[8][4], int column, const int (&bound)[2]) {
  keep_branch();
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    const int at = column + 8 * n + threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const bool outside = kAfter ? at + i % 2 > bound[i / 2] : at + i % 2 < bound[i / 2];
      if (outside) scores[n][i] = 2 * kNothing;
    }
  }
}

/// Converts a result to a left operand, rounded to bf16.
__device__ __forceinline__ void round_result(unsigned (&a)[4][1][4], const float (&d)[8][4]) {
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    a[n / 2][0][n % 2 * 2] = bf16_pair(d[n][0], d[n][1]);
    a[n / 2][0][n % 2 * 2 + 1] = bf16_pair(d[n][2], d[n][3]);
  }
}

/// Rotates gradients of a sequence's rows, those of token `first` on, back by the angles of their positions: RoPE's
/// backward pass (templates/rope.cu), of numbers that are not rounded yet. Both columns of a pair, kWidth / 2 apart,
/// are in one lane. table [kRows, kWidth]: cosines, then sines. document_begin: of the sequence's tokens, if
/// positions begin anew in each document.
template <int kWidth, int kRows, int kSlices>
__device__ __forceinline__ void rotate_back(float (&d)[kSlices][1][8][4], const float* table, int first,
                                            const int* document_begin = nullptr) {
  static_assert(kWidth % 16 == 0, "pairs in one lane");
  constexpr int kApart = kWidth / 16;  // eights of columns from one element of a pair to the other
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int token = min(first + lane / 4 + half * 8, kRows - 1);  // rows past the last one are not stored
    const float* angles = table + (token - (document_begin ? document_begin[token] : 0)) * kWidth + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < kApart; ++n) {
      const float2 cosine = *reinterpret_cast<const float2*>(angles + 8 * n);
      const float2 sine = *reinterpret_cast<const float2*>(angles + kWidth / 2 + 8 * n);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float& a = d[n / 8][0][n % 8][half * 2 + i];
        float& b = d[(n + kApart) / 8][0][(n + kApart) % 8][half * 2 + i];
        const float c = i ? cosine.y : cosine.x, s = i ? sine.y : sine.x;
        const float turned = a * c + b * s;
        b = b * c - a * s;
        a = turned;
      }
    }
  }
}

/// Writes d * `factor` to `count` rows of kWidth, kPitch apart. There is one factor for rows r and one for rows r + 8
/// of each warp.
template <int kWidth, int kPitch, int kSlices>
__device__ __forceinline__ void store_rows(const float (&d)[kSlices][1][8][4], const float (&factor)[1][2], bf16* to,
                                           int count) {
#pragma unroll
  for (int s = 0; s < kSlices; ++s) store_result<kWidth, kPitch>(d[s], factor, to, kTile * s, count);
}

/// Same with one factor for all rows.
template <int kWidth, int kPitch, int kSlices>
__device__ __forceinline__ void store_rows(const float (&d)[kSlices][1][8][4], float factor, bf16* to, int count) {
  const float factors[1][2] = {{factor, factor}};
  store_rows<kWidth, kPitch>(d, factors, to, count);
}

}  // namespace llmc
