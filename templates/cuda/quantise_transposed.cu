// quantise_transposed: a weight's rows rounded to e4m3 as quantise rounds them, and the codes transposed: fp8 products
// of sm_90 read both operands along the sum.
//
// Floor: 2 bytes read and 1 written an element. A block reads its 32 rows twice, the second time from the L2 cache.
#include "device/cuda/transposed_tile.h"
#include "device/group.h"
#include "params.h"

namespace llmc {

constexpr int kVector = 8;      // bf16 numbers in 16 bytes
constexpr int kTileRows = 32;   // codes in a sector of memory of the result
constexpr int kTileCols = 256;  // a lane has eight columns of four rows
constexpr int kFours = kTileRows / 4;

/// w [kHeight, kWidth], both multiples of 16; y [kWidth, kHeight]: codes; scales [kHeight] of the rows of w; ones
/// [kWidth]: 1.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL quantise_transposed(const bf16* __restrict__ w, e4m3* __restrict__ y, float* __restrict__ scales,
                                float* __restrict__ ones) {
  __shared__ float inverse[kTileRows];
  __shared__ TransposedTile<kTileRows, kTileCols> tile;
  const int first = blockIdx.x * kTileRows, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int rows = min(kTileRows, kHeight - first);
  const bf16* const from = w + static_cast<long long>(first) * kPitch;

  const auto read = [&](int row, int col, float(&value)[kVector]) {
    unsigned words[kVector / 2];
    read_aligned(from + static_cast<long long>(row) * kPitch + col, words);
    unpack<bf16>(words, value);
  };

  for (int row = warp; row < rows; row += kLanes / 32) {
    float largest = 0.0f;
    for (int col = lane * kVector; col < kWidth; col += 32 * kVector) {
      float value[kVector];
      read(row, col, value);
#pragma unroll
      for (int e = 0; e < kVector; ++e) largest = max(largest, magnitude(value[e]));
    }
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
      largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, distance));
    if (lane == 0) {
      const float scale = e4m3_weight_scale(largest);
      scales[first + row] = scale;
      inverse[row] = 1.0f / scale;
    }
  }
  for (int col = blockIdx.x * kLanes + threadIdx.x; col < kWidth; col += gridDim.x * kLanes) ones[col] = 1.0f;

  for (int begin = 0; begin < kWidth; begin += kTileCols) {
    __syncthreads();  // inverse is written, and the last tile is read
    for (int i = threadIdx.x; i < kFours * kTileCols / kVector; i += kLanes) {
      const int row = i % kFours * 4, col = i / kFours * kVector;
      if (row >= rows || begin + col >= kWidth) continue;
      float value[4][kVector];
#pragma unroll
      for (int r = 0; r < 4; ++r) read(row + r, begin + col, value[r]);
#pragma unroll
      for (int e = 0; e < kVector; ++e)
        tile.set(row, col + e,
                 four_codes<e4m3>(value[0][e] * inverse[row], value[1][e] * inverse[row + 1],
                                  value[2][e] * inverse[row + 2], value[3][e] * inverse[row + 3]));
    }
    __syncthreads();
    tile.write<kLanes>(y + static_cast<long long>(begin) * kHeight + first, kHeight, rows,
                       min(kTileCols, kWidth - begin));
  }
}

}  // namespace llmc
