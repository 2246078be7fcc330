// Codes of 8 bits on their way from rows to columns, in the shared memory of a block.
#pragma once

#include "device/cuda/block_memory.h"
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

/// Codes of kRows rows that a group of lanes computes one after the other, in the memory that the block's launch asks
/// for. They stay in rows there: a lane has a vector of a row, which it sets without conflicts of banks, and reads a
/// word of each of several rows to write parts of four columns.
template <int kRows, int kCols>
class CollectedRows {
  static constexpr int kPitch = kCols / 4;
  unsigned* words_;

 public:
  __device__ explicit CollectedRows(int group)
      : words_(reinterpret_cast<unsigned*>(block_memory) + static_cast<long long>(group) * kRows * kPitch) {}

  __device__ __forceinline__ e4m3* row(int i) const { return reinterpret_cast<e4m3*>(words_ + i * kPitch); }

  /// Writes the first `rows` rows, a multiple of kPiece, as columns of `to`, kHeight codes apart: from column `first`
  /// on, a multiple of kPiece too. Their codes get one scale in place of those of the rows, `scales`. For all lanes,
  /// after a barrier.
  template <int kLanes, int kPiece, int kHeight, class Code>
  __device__ __forceinline__ void write(int lane, Code* to, int first, int rows, const float* scales,
                                        float shared) const {
    constexpr int kFours = kPiece / 4;
    const float inverse = 1.0f / shared;
    for (int i = lane; i < rows / kPiece * kPitch; i += kLanes) {
      const int word = i % kPitch, from = i / kPitch * kPiece;
      unsigned columns[4][kFours];
#pragma unroll
      for (int four = 0; four < kFours; ++four) {
        unsigned codes[4];
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          const int row = from + 4 * four + r;
          codes[r] = scaled_e4m3(words_[row * kPitch + word], scales[first + row] * inverse);
        }
        transpose_bytes(codes);
#pragma unroll
        for (int e = 0; e < 4; ++e) columns[e][four] = codes[e];
      }
#pragma unroll
      for (int e = 0; e < 4; ++e)
        write_aligned(to + static_cast<long long>(4 * word + e) * kHeight + first + from, columns[e]);
    }
  }
};

}  // namespace llmc
