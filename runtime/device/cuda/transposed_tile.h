// Codes of 8 bits on their way from rows to columns, in the shared memory of a block.
#pragma once

#include "device/cuda/vectors.h"

namespace llmc {

template <int kRows, int kCols>
struct TransposedTile {
  static constexpr int kWordsPitch = kRows / 4 + 1;  // so that the lanes of a warp write to different banks
  unsigned words[kCols * kWordsPitch];               // four codes of a column in a word

  /// Sets the codes of a column in four rows from `row` on, a multiple of 4.
  __device__ __forceinline__ void set(int row, int col, unsigned codes) { words[col * kWordsPitch + row / 4] = codes; }

  /// Writes each of `cols` columns as a row of `to`, `pitch` codes apart and 16-byte aligned: its codes in `rows` rows,
  /// a multiple of 16. For all kLanes threads of the block, after a barrier.
  template <int kLanes, class Code>
  __device__ __forceinline__ void write(Code* to, int pitch, int rows, int cols) const {
    for (int i = threadIdx.x; i < kCols * kRows / 16; i += kLanes) {
      const int col = i / (kRows / 16), row = i % (kRows / 16) * 16;
      if (row >= rows || col >= cols) continue;
      unsigned codes[4];
#pragma unroll
      for (int word = 0; word < 4; ++word) codes[word] = words[col * kWordsPitch + row / 4 + word];
      write_aligned(to + static_cast<long long>(col) * pitch + row, codes);
    }
  }
};

}  // namespace llmc
