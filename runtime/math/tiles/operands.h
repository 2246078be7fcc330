// Copies 32 rows or columns of a matrix as operands of multiply_block() (device/cpu/tiles.h), and stores its results.
//
// Tiles multiply bf16, so an fp32 element is copied as two: hi = bf16(x) and lo = bf16(x - hi). hi + lo is x up to
// 2^-17 |x|, and a product is hi hi + hi lo + lo hi (bf16x3). Omitting lo lo and rounding lo cost at most 2^-15 of a
// term, 2^-17.6 in the mean square. Infinity becomes NaN. Below 2^-117 lo is 0, because it would be denormal.
#pragma once

#include <cstdint>

#include "device/cpu/tiles.h"
#include "device/types.h"

namespace llmc {

/// Number of bf16 numbers per element of a copy.
template <class T>
constexpr int kParts = sizeof(T) / sizeof(bf16);

constexpr int kBlockWords = 32 * 16;  // of one part of a step of a block's operand: 32 deep, 32 wide

/// Stride between steps of a copy. Its parts are contiguous: hi, lo in A and lo, hi in B, so that both mixed products
/// are one sum over steps half as long (multiply_copies).
template <class T>
constexpr int kStepWords = kParts<T> * kBlockWords;
template <class T>
constexpr int place_in_b(int part) {
  return (kParts<T> - 1 - part) * kBlockWords;
}

typedef unsigned short halves __attribute__((vector_size(64)));

/// Stores 64 bytes at a multiple of 64. `kStreams`: streaming stores, so that the old content is not read; they need a
/// fence (streams_end) before another thread reads.
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

/// Joins the two halves of a line.
LLMC_TILE halves joined(vector_half low, vector_half high) {
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
                                 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
}

/// Words of 32 columns of two rows adjacent along the sum: for each part columns 0 to 15, then 16 to 31.
LLMC_TILE void pair_columns(const bf16* even, const bf16* odd, vector (&words)[1][2]) {
  halves first, second;
  __builtin_memcpy(&first, even, sizeof(first));
  __builtin_memcpy(&second, odd, sizeof(second));
  words[0][0] = (vector)__builtin_shufflevector(first, second, 0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39,
                                                8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47);
  words[0][1] = (vector)__builtin_shufflevector(first, second, 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54,
                                                23, 55, 24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63);
}

LLMC_TILE void pair_columns(const float* even, const float* odd, vector (&words)[2][2]) {
  for (int h = 0; h < 2; ++h) {
    const vector low = load(even + h * kVectorLanes), high = load(odd + h * kVectorLanes);
    words[0][h] = round_to_pairs(low, high);
    const vector_bits hi = (vector_bits)words[0][h];
    words[1][h] = round_to_pairs(low - (vector)(hi << 16), high - (vector)(hi & 0xffff0000u));
  }
}

/// Words of 32 columns of one row, along which the sum runs.
LLMC_TILE void pair_row(const bf16* from, vector (&words)[1]) { words[0] = load(reinterpret_cast<const float*>(from)); }

LLMC_TILE void pair_row(const float* from, vector (&words)[2]) {
  const vector low = load(from), high = load(from + kVectorLanes);
  const vector_half hi_low = round_to_half(low), hi_high = round_to_half(high);
  words[0] = (vector)joined(hi_low, hi_high);
  words[1] = (vector)joined(round_to_half(low - widened(hi_low)), round_to_half(high - widened(hi_high)));
}

/// Packs 32 columns of `steps` times 32 rows, transposed: to[step][part][column] = 16 words.
template <class T>
LLMC_TILE void pack_columns_of_a(const T* from, std::int64_t pitch, int steps, float* to) {
  for (int s = 0; s < steps; ++s) {
    vector columns[kParts<T>][2][kVectorLanes];  // 0 to 15 and 16 to 31
    for (int r = 0; r < kVectorLanes; ++r) {
      const T* even = from + (32 * s + 2 * r) * pitch;
      const T* odd = even + pitch;
      vector words[kParts<T>][2];
      pair_columns(even, odd, words);
      for (int p = 0; p < kParts<T>; ++p)
        for (int h = 0; h < 2; ++h) columns[p][h][r] = words[p][h];
      // Prefetches the next 32 columns for the next call: hardware does not predict one line per row.
      for (int p = 0; p < kParts<T>; ++p) {
        __builtin_prefetch(even + 32 + p * 64 / sizeof(T));
        __builtin_prefetch(odd + 32 + p * 64 / sizeof(T));
      }
    }
    for (int p = 0; p < kParts<T>; ++p)
      for (int h = 0; h < 2; ++h) {
        transpose(columns[p][h]);
        for (int c = 0; c < kVectorLanes; ++c)
          store(to + s * kStepWords<T> + p * kBlockWords + (16 * h + c) * 16, columns[p][h][c]);
      }
  }
}

/// Packs 32 columns of `steps` times 32 rows: to[step][part][pair of rows] = 32 words.
template <class T>
LLMC_TILE void pack_rows_of_b(const T* from, std::int64_t pitch, int steps, float* to) {
  for (int r = 0; r < 16 * steps; ++r) {
    vector words[kParts<T>][2];
    pair_columns(from + 2 * r * pitch, from + (2 * r + 1) * pitch, words);
    for (int p = 0; p < kParts<T>; ++p)
      for (int h = 0; h < 2; ++h)
        store(to + r / 16 * kStepWords<T> + place_in_b<T>(p) + r % 16 * 32 + h * kVectorLanes, words[p][h]);
  }
}

/// Same for a matrix stored transposed: 32 rows of `steps` times 32 columns.
template <class T>
LLMC_TILE void pack_columns_of_b(const T* from, std::int64_t pitch, int steps, float* to) {
  for (int s = 0; s < steps; ++s) {
    for (int half = 0; half < 2; ++half) {
      vector rows[kParts<T>][kVectorLanes];
      for (int r = 0; r < kVectorLanes; ++r) {
        vector words[kParts<T>];
        pair_row(from + (16 * half + r) * pitch + 32 * s, words);
        for (int p = 0; p < kParts<T>; ++p) rows[p][r] = words[p];
      }
      for (int p = 0; p < kParts<T>; ++p) {
        transpose(rows[p]);
        for (int r = 0; r < kVectorLanes; ++r)
          store(to + s * kStepWords<T> + place_in_b<T>(p) + r * 32 + 16 * half, rows[p][r]);
      }
    }
  }
}

/// 32 rows of A, `steps` times 32 columns of them, as an operand: bf16 is used in place.
LLMC_TILE TileOperand rows_of_a(const bf16* from, std::int64_t pitch, int, float*) {
  return {reinterpret_cast<const float*>(from), static_cast<int>(pitch / 2), 16};
}

/// fp32 is copied: copy[step][part][row] = 16 words.
LLMC_TILE TileOperand rows_of_a(const float* from, std::int64_t pitch, int steps, float* copy) {
  for (int r = 0; r < 32; ++r) {
    for (int s = 0; s < steps; ++s) {
      vector words[2];
      pair_row(from + r * pitch + 32 * s, words);
      for (int p = 0; p < 2; ++p) store(copy + s * kStepWords<float> + p * kBlockWords + r * 16, words[p]);
    }
  }
  return {copy, 16, kStepWords<float>};
}

/// C [32, 32] = A B, or C += A B, of operands of type T, summed over `steps` times 32.
template <class T, bool kAdd>
LLMC_TILE void multiply_copies(Tiles& tiles, TileOperand a, TileOperand b, int steps, float* c) {
  if constexpr (kParts<T> == 1) {
    multiply_block<kAdd>(tiles, a, b, steps, c, 32);
  } else {
    // hi lo + lo hi in one call, which saves a load and store of C; then hi hi.
    multiply_block<kAdd>(tiles, {a.data, a.pitch, kBlockWords}, {b.data, b.pitch, kBlockWords}, 2 * steps, c, 32);
    multiply_block<true>(tiles, a, {b.data + kBlockWords, b.pitch, b.step}, steps, c, 32);
  }
}

}  // namespace llmc
