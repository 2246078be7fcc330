// Copies matrix tiles into the layouts that products in registers read: fp32, or words of two bf16 (pairs).
//
// Words are stored as float, bit for bit: they are only loaded, shuffled and stored, never computed with.
//
// Loops over rows are not unrolled (unroll 1): they wait for memory, and g++ would fully unroll those of narrow heads,
// to 2 to 3 times the code.
#pragma once

#include "device/cpu/vector.h"

namespace llmc {

/// Pairs pay off if one instruction multiplies them; otherwise bf16 operands are widened to fp32 while packing.
#if defined(__AVX512BF16__)
constexpr bool kHasPairs = true;
#else
constexpr bool kHasPairs = false;
#endif

/// Returns whether products of this type use pairs, and the number of elements along the sum per word.
template <class T>
constexpr bool kPairsOf = kHasPairs && sizeof(T) == 2;
template <class T>
constexpr int kPerWord = kPairsOf<T> ? 2 : 1;

/// Rows of elements reinterpreted as the words that a product along the row reads.
LLMC_TILE const float* words(const float* row) { return row; }
LLMC_TILE const float* words(const bf16* row) { return reinterpret_cast<const float*>(row); }

/// Row `r` if it exists, otherwise the last row (rows - 1, even if that lies before `from`). The substitute is never
/// used but must be finite, and a branch per row would cost more than the copy.
template <class T>
LLMC_TILE const T* row_or_last(const T* from, int pitch, int rows, int r) {
  return from + static_cast<long long>(r < rows ? r : rows - 1) * pitch;
}

/// Prefetches kCols elements of kRows rows, of which `rows` exist. Hardware does not predict rows that are a pitch
/// apart.
template <int kRows, int kCols, class T>
LLMC_TILE void prefetch_rows(const T* from, int pitch, int rows) {
#pragma GCC unroll 1
  for (int r = 0; r < kRows && r < rows; ++r)
    for (int c = 0; c < kCols; c += 64 / sizeof(T)) __builtin_prefetch(from + static_cast<long long>(r) * pitch + c);
}

/// to[i] = the query, counted from `first`, from which on none sees key number `key` + i.
template <int kCount>
LLMC_TILE void pack_past(const Mask& mask, int key, int first, int* to) {
  for (int i = 0; i < kCount; ++i) to[i] = mask.past(key + i) - first;
}

/// to[r][c] = from[r][c] for r < kRows and c < kCols; zero for kCols <= c < kPitch.
template <int kRows, int kCols, int kPitch, class T>
LLMC_TILE void pack_rows(const T* from, int pitch, int rows, float* to) {
  static_assert(kPitch % kVectorLanes == 0 && kPitch >= kCols);
  const T* line = row_or_last(from, pitch, rows, 0);
#pragma GCC unroll 1
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kPitch; c += kVectorLanes) store(to + r * kPitch + c, load_some(line + c, kCols - c));
    line += r + 1 < rows ? pitch : 0;
  }
}

/// to[r / 2][c] = the pair of from[r][c] and from[r + 1][c], even r; zeros as in pack_rows.
template <int kRows, int kCols, int kPitch>
LLMC_TILE void pack_row_pairs(const bf16* from, int pitch, int rows, float* to) {
#pragma GCC unroll 1
  for (int r = 0; r < kRows; r += 2) {
    const bf16* even = row_or_last(from, pitch, rows, r);
    const bf16* odd = row_or_last(from, pitch, rows, r + 1);
    for (int c = 0; c < kPitch; c += kVectorLanes) {
      // Widening puts an element into the upper half of a word; the even row is shifted to the lower half.
      const vector_bits low = (vector_bits)load_some(even + c, kCols - c) >> 16;
      store(to + r / 2 * kPitch + c, (vector)(low | (vector_bits)load_some(odd + c, kCols - c)));
    }
  }
}

/// to[c][r / 2] = the pair of from[r][c] and from[r + 1][c], even r < 2 kVectorLanes: pack_row_pairs transposed, in
/// lines of kVectorLanes words. Zeros for kCols <= c < kLines.
template <int kCols, int kLines>
LLMC_TILE void pack_pair_columns(const bf16* from, int pitch, int rows, float* to) {
  for (int c = 0; c < kLines; c += kVectorLanes) {
    vector block[kVectorLanes];
    for (int r = 0; r < kVectorLanes; ++r) {
      const bf16* even = row_or_last(from, pitch, rows, 2 * r);
      const bf16* odd = row_or_last(from, pitch, rows, 2 * r + 1);
      const vector_bits low = (vector_bits)load_some(even + c, kCols - c) >> 16;
      block[r] = (vector)(low | (vector_bits)load_some(odd + c, kCols - c));
    }
    transpose(block);
    for (int r = 0; r < kVectorLanes; ++r) store(to + (c + r) * kVectorLanes, block[r]);
  }
}

/// to[c][r] = from[r][c] for r < kVectorLanes; zero for c >= kCols up to a full vector.
template <int kCols, class T>
LLMC_TILE void pack_columns(const T* from, int pitch, int rows, float* to, int to_pitch) {
  for (int c = 0; c < kCols; c += kVectorLanes) {
    vector block[kVectorLanes];
    for (int r = 0; r < kVectorLanes; ++r) block[r] = load_some(row_or_last(from, pitch, rows, r) + c, kCols - c);
    transpose(block);
    for (int r = 0; r < kVectorLanes; ++r) store(to + (c + r) * to_pitch, block[r]);
  }
}

/// to[r][c] = from[c][r] * scale[r] for r < rows and c < kCols, rounded to T: the inverse of pack_columns.
template <int kCols, class T>
LLMC_TILE void unpack_columns(const float* from, int from_pitch, vector scale, T* to, int pitch, int rows) {
  for (int c = 0; c < kCols; c += kVectorLanes) {
    vector block[kVectorLanes];
    for (int r = 0; r < kVectorLanes; ++r) block[r] = load(from + (c + r) * from_pitch) * scale;
    transpose(block);
    for (int r = 0; r < kVectorLanes; ++r)
      if (r < rows) store_some(to + r * pitch + c, block[r], kCols - c);
  }
}

/// Packs the operand of a product that sums along the row: rows [kRows, kPitch], kPitch in words.
template <int kRows, int kCols, int kPitch, class T>
LLMC_TILE void pack_along(const T* from, int pitch, int rows, float* to) {
  if constexpr (kPairsOf<T>)
    pack_rows<kRows, kCols / 2, kPitch>(words(from), pitch / 2, rows, to);
  else
    pack_rows<kRows, kCols, kPitch>(from, pitch, rows, to);
}

/// Packs the operand of a product that sums over rows: [kRows / kPerWord, kPitch].
template <int kRows, int kCols, int kPitch, class T>
LLMC_TILE void pack_across(const T* from, int pitch, int rows, float* to) {
  if constexpr (kPairsOf<T>)
    pack_row_pairs<kRows, kCols, kPitch>(from, pitch, rows, to);
  else
    pack_rows<kRows, kCols, kPitch>(from, pitch, rows, to);
}

/// Packs kVectorLanes rows of the transposed operand of a product that sums along the row: [kCols / kPerWord,
/// to_pitch].
template <int kCols, class T>
LLMC_TILE void pack_transposed(const T* from, int pitch, int rows, float* to, int to_pitch) {
  if constexpr (kPairsOf<T>)
    pack_columns<kCols / 2>(words(from), pitch / 2, rows, to, to_pitch);
  else
    pack_columns<kCols>(from, pitch, rows, to, to_pitch);
}

/// to[r / 2] = pairs of rows r and r + 1 of an fp32 tile, kWidth lanes, for a product that sums over its rows.
template <int kWidth>
LLMC_TILE void pair_rows(const float* from, int rows, int pitch, float* to) {
#pragma GCC unroll 1
  for (int r = 0; r < rows; r += 2) {
    for (int c = 0; c < kWidth; c += kVectorLanes)
      store(to + r / 2 * pitch + c, round_to_pairs(load(from + r * pitch + c), load(from + (r + 1) * pitch + c)));
  }
}

/// Rounds the rows of an fp32 tile to bf16, kWidth elements of `pitch`; a row of `to` is pitch / 2 words.
template <int kWidth>
LLMC_TILE void round_rows(const float* from, int rows, int pitch, float* to) {
#pragma GCC unroll 1
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < kWidth; c += kVectorLanes) {
      const vector_half half = round_to_half(load(from + r * pitch + c));
      __builtin_memcpy(to + r * (pitch / 2) + c / 2, &half, sizeof(half));
    }
  }
}

/// Lane r < kVectorLanes: the sum over c < kCols of a[r][c] * b[r][c].
template <int kCols, class T>
LLMC_TILE vector row_products(const T* a, const T* b, int pitch, int rows) {
  vector sums[kVectorLanes];
  for (int r = 0; r < kVectorLanes; ++r) {
    const T* left = row_or_last(a, pitch, rows, r);
    const T* right = row_or_last(b, pitch, rows, r);
    sums[r] = vector{};
    for (int c = 0; c < kCols; c += kVectorLanes)
      sums[r] = multiply_add(load_some(left + c, kCols - c), load_some(right + c, kCols - c), sums[r]);
  }
  transpose(sums);
  vector total{};
  for (int r = 0; r < kVectorLanes; ++r) total += sums[r];
  return total;
}

}  // namespace llmc
