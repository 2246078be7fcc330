// quantise_transposed: a weight's rows rounded to e4m3 as quantise rounds them, and the codes transposed: fp8 products
// of sm_90 read both operands along the sum.
#include "device/cuda/ptx.h"
#include "device/fp8.h"
#include "device/group.h"
#include "params.h"

namespace llmc {

constexpr int kBlockRows = 32, kBlockCols = 128;  // a tile: 32 codes of a row of the result are one sector of memory
constexpr int kVector = 8;                        // bf16 numbers in 16 bytes
constexpr int kTilePitch = kBlockRows + 4;        // so that the lanes of a warp write to different banks

/// w [kRows, kCols], both multiples of 16; y [kCols, kRows]: codes; scales [kRows] of the rows of w; ones [kCols]: 1.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL quantise_transposed(const bf16* __restrict__ w, e4m3* __restrict__ y, float* __restrict__ scales,
                                float* __restrict__ ones) {
  __shared__ float inverse[kBlockRows];
  __shared__ __align__(16) e4m3 tile[kBlockCols * kTilePitch];
  const int first = blockIdx.x * kBlockRows, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int rows = min(kBlockRows, kRows - first);

  for (int row = warp; row < rows; row += kLanes / 32) {
    const bf16* const from = w + static_cast<long long>(first + row) * kPitch;
    float largest = 0.0f;
    for (int col = lane * kVector; col < kCols; col += 32 * kVector) {
      unsigned words[kVector / 2];
      float value[kVector];
      read_aligned(from + col, words);
      unpack<bf16>(words, value);
#pragma unroll
      for (int e = 0; e < kVector; ++e) largest = max(largest, magnitude(value[e]));
    }
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
      largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, distance));
    if (lane == 0) {
      const float scale = e4m3_scale(largest);
      scales[first + row] = scale;
      inverse[row] = 1.0f / scale;
    }
  }
  for (int col = blockIdx.x * kLanes + threadIdx.x; col < kCols; col += gridDim.x * kLanes) ones[col] = 1.0f;

  for (int begin = 0; begin < kCols; begin += kBlockCols) {
    __syncthreads();  // before the first tile: inverse is written; before the next: the last one is read
    for (int i = threadIdx.x; i < kBlockRows * kBlockCols / kVector; i += kLanes) {
      const int row = i % kBlockRows, col = i / kBlockRows * kVector;
      if (row >= rows || begin + col >= kCols) continue;
      unsigned words[kVector / 2];
      float value[kVector];
      read_aligned(w + static_cast<long long>(first + row) * kPitch + begin + col, words);
      unpack<bf16>(words, value);
#pragma unroll
      for (int e = 0; e < kVector; ++e) tile[(col + e) * kTilePitch + row] = from_float<e4m3>(value[e] * inverse[row]);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < kBlockCols * kBlockRows / 16; i += kLanes) {
      const int col = i / (kBlockRows / 16), row = i % (kBlockRows / 16) * 16;
      if (row >= rows || begin + col >= kCols) continue;
      unsigned words[4];
#pragma unroll
      for (int word = 0; word < 4; ++word)
        words[word] = *reinterpret_cast<const unsigned*>(&tile[col * kTilePitch + row + 4 * word]);
      write_aligned(y + static_cast<long long>(begin + col) * kRows + first + row, words);
    }
  }
}

}  // namespace llmc
