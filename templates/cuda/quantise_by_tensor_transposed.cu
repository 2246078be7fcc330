// quantise_by_tensor_transposed: a tensor divided by a power of two and rounded to 8 bits, and the codes transposed:
// fp8 products of most archs read both operands along the sum.
//
// Floor: 2 bytes read and 1 written an element; with kStraight 2 written.
#include "device/cuda/transposed_tile.h"
#include "device/group.h"
#include "params.h"

namespace llmc {

constexpr int kVector = 16;  // codes in 16 bytes
constexpr int kTile = 128;   // rows and columns of a block: whole lines of memory on both sides
constexpr int kRowTiles = (kHeight + kTile - 1) / kTile;

/// x [kHeight, kWidth], both multiples of 16; largest [kBlocks]: the largest magnitudes of parts of x. transposed
/// [kWidth, kHeight]: codes; scale [1]: code_scale() of the largest magnitude; with kStraight y [kHeight, kWidth]: the
/// same codes as they lie in x, else null.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL quantise_by_tensor_transposed(const Act* __restrict__ x, const float* __restrict__ largest,
                                          Code* __restrict__ transposed, float* __restrict__ scale,
                                          Code* __restrict__ y) {
  __shared__ TransposedTile<kTile, kTile, kVector> tile;
  const int first_row = blockIdx.x % kRowTiles * kTile, first_col = blockIdx.x / kRowTiles * kTile;
  const int rows = min(kTile, kHeight - first_row), cols = min(kTile, kWidth - first_col);
  const Group<kLanes> lanes;
  const float of_all = code_scale<Code>(lanes.largest(lanes.row<kBlocks>(largest), [](float v) { return v; }));
  const float inverse = 1.0f / of_all;
  if (blockIdx.x == 0 && lanes.leads()) scale[0] = of_all;

  for (int i = threadIdx.x; i < kTile / 4 * kTile / kVector; i += kLanes) {
    const int row = i / (kTile / kVector) * 4, col = i % (kTile / kVector) * kVector;
    if (row >= rows || col >= cols) continue;
    float value[4][kVector];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const long long at = static_cast<long long>(first_row + row + r) * kPitch + first_col + col;
      unsigned words[kWords<Act, kVector>];
      read_aligned(x + at, words);
      unpack<Act>(words, value[r]);
#pragma unroll
      for (int e = 0; e < kVector; ++e) value[r][e] *= inverse;
      if constexpr (kStraight) {
        unsigned codes[kWords<Code, kVector>];
        pack<Code>(value[r], codes);
        write_aligned(y + at, codes);
      }
    }
#pragma unroll
    for (int e = 0; e < kVector; ++e)
      tile.set(row, col + e, four_codes<Code>(value[0][e], value[1][e], value[2][e], value[3][e]));
  }
  __syncthreads();
  tile.write<kLanes>(transposed + static_cast<long long>(first_col) * kHeight + first_row, kHeight, rows, cols);
}

}  // namespace llmc
