// Copies of 32 columns of a bf16 matrix as the operands of multiply_block() (device/cpu/tiles.h), and stores of its
// results.
#pragma once

#include <cstdint>

#include "device/cpu/tiles.h"
#include "device/types.h"

namespace llmc {

constexpr int kBlockWords = 32 * 16;  // a step of a block's operand: 32 deep, 32 wide

typedef unsigned short halves __attribute__((vector_size(64)));

/// Stores 64 bytes at a multiple of 64; where `kStreams` past the caches, so that their old content is not read. What
/// was written so needs a fence (streams_end) before another thread reads it.
template <bool kStreams>
LLMC_TILE void store_line(void* to, halves line) {
#if defined(__AVX512F__)
  if constexpr (kStreams) {
    asm volatile("vmovntps %1, %0" : "=m"(*static_cast<halves*>(to)) : "v"(line));
    return;
  }
#endif
  __builtin_memcpy(to, &line, sizeof(line));
}

template <bool kStreams>
LLMC_TILE void streams_end() {
  if constexpr (kStreams) __builtin_ia32_sfence();
}

/// The words of 32 columns of two rows that are neighbours along the sum: columns 0 to 15, then 16 to 31.
LLMC_TILE void pair_columns(const bf16* even, const bf16* odd, vector& low, vector& high) {
  halves first, second;
  __builtin_memcpy(&first, even, sizeof(first));
  __builtin_memcpy(&second, odd, sizeof(second));
  low = (vector)__builtin_shufflevector(first, second, 0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39, 8, 40, 9,
                                        41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47);
  high = (vector)__builtin_shufflevector(first, second, 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55,
                                         24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63);
}

/// 32 columns of `steps` times 32 rows, transposed: to[step][column] = 16 words.
LLMC_TILE void pack_columns_of_a(const bf16* from, std::int64_t pitch, int steps, float* to) {
  for (int s = 0; s < steps; ++s) {
    vector low[kVectorLanes], high[kVectorLanes];
    for (int r = 0; r < kVectorLanes; ++r) {
      const bf16* even = from + (32 * s + 2 * r) * pitch;
      const bf16* odd = even + pitch;
      pair_columns(even, odd, low[r], high[r]);
      // The next 32 columns, which the next call reads: one line of a row at a time is nothing that hardware foresees.
      __builtin_prefetch(even + 32);
      __builtin_prefetch(odd + 32);
    }
    transpose(low);
    transpose(high);
    for (int c = 0; c < kVectorLanes; ++c) store(to + s * kBlockWords + c * 16, low[c]);
    for (int c = 0; c < kVectorLanes; ++c) store(to + s * kBlockWords + (16 + c) * 16, high[c]);
  }
}

/// 32 columns of `steps` times 32 rows: to[step][pair of rows] = 32 words.
LLMC_TILE void pack_rows_of_b(const bf16* from, std::int64_t pitch, int steps, float* to) {
  for (int r = 0; r < 16 * steps; ++r) {
    vector low, high;
    pair_columns(from + 2 * r * pitch, from + (2 * r + 1) * pitch, low, high);
    store(to + r * 32, low);
    store(to + r * 32 + kVectorLanes, high);
  }
}

/// The same of a matrix that is stored transposed: 32 rows of `steps` times 32 columns.
LLMC_TILE void pack_columns_of_b(const bf16* from, std::int64_t pitch, int steps, float* to) {
  for (int s = 0; s < steps; ++s) {
    for (int half = 0; half < 2; ++half) {
      vector words[kVectorLanes];
      for (int r = 0; r < kVectorLanes; ++r)
        words[r] = load(reinterpret_cast<const float*>(from + (16 * half + r) * pitch + 32 * s));
      transpose(words);
      for (int r = 0; r < kVectorLanes; ++r) store(to + s * kBlockWords + r * 32 + 16 * half, words[r]);
    }
  }
}

}  // namespace llmc
