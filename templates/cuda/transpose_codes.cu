// transpose_codes: e4m3 codes whose rows have a scale each, transposed for a product that sums over these rows, with
// one scale that all of them share.
//
// Floor: a byte read and a byte written an element.
#include "device/cuda/transposed_tile.h"
#include "device/group.h"
#include "params.h"

namespace llmc {

constexpr int kVector = 16;  // codes in 16 bytes
constexpr int kTile = 128;   // rows and columns of a block: whole lines of memory on both sides
constexpr int kRowTiles = (kHeight + kTile - 1) / kTile;

/// x [kHeight, kWidth], both multiples of 16, with scales [kHeight]; shared [1]: the largest of them. y [kWidth,
/// kHeight]; row_scales [kWidth]: the shared scale, with kFolded divided by factors [kWidth], else null.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL transpose_codes(const e4m3* __restrict__ x, const float* __restrict__ scales,
                            const bf16* __restrict__ factors, const float* __restrict__ shared, e4m3* __restrict__ y,
                            float* __restrict__ row_scales) {
  __shared__ TransposedTile<kTile, kTile, kVector> tile;
  const int first_row = blockIdx.x % kRowTiles * kTile, first_col = blockIdx.x / kRowTiles * kTile;
  const int rows = min(kTile, kHeight - first_row), cols = min(kTile, kWidth - first_col);
  const float scale = shared[0], inverse = 1.0f / scale;

#pragma unroll
  for (int i = threadIdx.x; i < kTile / 4 * kTile / kVector; i += kLanes) {
    const int row = i / (kTile / kVector) * 4, col = i % (kTile / kVector) * kVector;
    if (row >= rows || col >= cols) continue;
    unsigned words[4][kVector / 4];
#pragma unroll
    for (int r = 0; r < 4; ++r)
      read_aligned(x + static_cast<long long>(first_row + row + r) * kPitch + first_col + col, words[r]);
    float factor[4];
#pragma unroll
    for (int r = 0; r < 4; ++r) factor[r] = scales[first_row + row + r] * inverse;
#pragma unroll
    for (int word = 0; word < kVector / 4; ++word) {
      unsigned codes[4];
#pragma unroll
      for (int r = 0; r < 4; ++r) codes[r] = scaled_e4m3(words[r][word], factor[r]);
      transpose_bytes(codes);
#pragma unroll
      for (int e = 0; e < 4; ++e) tile.set(row, col + 4 * word + e, codes[e]);
    }
  }
  if (first_row == 0)
    for (int col = first_col + threadIdx.x; col < first_col + cols; col += kLanes)
      row_scales[col] = kFolded ? scale / to_float(factors[col]) : scale;
  __syncthreads();
  tile.write<kLanes>(y + static_cast<long long>(first_col) * kHeight + first_row, kHeight, rows, cols);
}

}  // namespace llmc
