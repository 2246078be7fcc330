// Codes of 8 bits on their way from rows to columns, in the shared memory of a block.
#pragma once

#include "device/cuda/vectors.h"

namespace llmc {

/// Four words with four bytes each, transposed: word i gets byte i of each of them.
__device__ __forceinline__ void transpose_bytes(unsigned (&words)[4]) {
  const unsigned low = __byte_perm(words[0], words[1], 0x5140), low_after = __byte_perm(words[2], words[3], 0x5140);
  const unsigned high = __byte_perm(words[0], words[1], 0x7362), high_after = __byte_perm(words[2], words[3], 0x7362);
  words[0] = __byte_perm(low, low_after, 0x5410), words[1] = __byte_perm(low, low_after, 0x7632);
  words[2] = __byte_perm(high, high_after, 0x5410), words[3] = __byte_perm(high, high_after, 0x7632);
}

/// Lanes of a warp set codes kVector columns or four rows apart at once. A column's words are rotated by four for each
/// kVector columns before it, so that these are in different banks.
template <int kRows, int kCols, int kVector>
struct TransposedTile {
  static constexpr int kPitch = kRows / 4;  // four codes of a column in a word
  alignas(16) unsigned words[kCols * kPitch];

  __device__ __forceinline__ static int place(int row, int col) {
    return col * kPitch + (row / 4 + col / kVector * 4) % kPitch;
  }

  /// Sets the codes of a column in four rows from `row` on, a multiple of 4.
  __device__ __forceinline__ void set(int row, int col, unsigned codes) { words[place(row, col)] = codes; }

  /// Writes each of `cols` columns as a row of `to`, `pitch` codes apart and 16-byte aligned: its codes in `rows` rows,
  /// a multiple of 16. For all kLanes threads of the block, after a barrier.
  template <int kLanes, class Code>
  __device__ __forceinline__ void write(Code* to, int pitch, int rows, int cols) const {
#pragma unroll
    for (int i = threadIdx.x; i < kCols * kRows / 16; i += kLanes) {
      const int col = i / (kRows / 16), row = i % (kRows / 16) * 16;
      if (row >= rows || col >= cols) continue;
      unsigned codes[4];
      read_aligned(words + place(row, col), codes);
      write_aligned(to + static_cast<long long>(col) * pitch + row, codes);
    }
  }
};

}  // namespace llmc
