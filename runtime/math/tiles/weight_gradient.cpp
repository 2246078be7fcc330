#include "math/tiles/weight_gradient.h"

#include <algorithm>

#include "device/cpu/tiles.h"
#include "device/types.h"

namespace llmc {
namespace {

constexpr int kBlockWords = 32 * 16;  // a step of a block's operand: 32 deep, 32 wide

typedef unsigned short halves __attribute__((vector_size(64)));

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
void pack_columns_of_a(const bf16* from, std::int64_t pitch, int steps, float* to) {
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
void pack_rows_of_b(const bf16* from, std::int64_t pitch, int steps, float* to) {
  for (int r = 0; r < 16 * steps; ++r) {
    vector low, high;
    pair_columns(from + 2 * r * pitch, from + (2 * r + 1) * pitch, low, high);
    store(to + r * 32, low);
    store(to + r * 32 + kVectorLanes, high);
  }
}

}  // namespace

void weight_gradient(const GemmShape& shape, const void* a, const void* b, void* d, bool accumulate, int part,
                     int parts, void* copies) {
  // Shares are blocks of 32 rows of D, of all its columns unless there are more threads than blocks.
  const std::int64_t blocks = shape.m / 32, panels = std::min((parts + blocks - 1) / blocks, shape.n / 32);
  const std::int64_t begin = blocks * panels * part / parts, end = blocks * panels * (part + 1) / parts;
  if (begin == end) return;
  Tiles tiles;
  float* columns = static_cast<float*>(copies);
  float* rows = columns + kGradientDepth / 32 * kBlockWords;
  for (std::int64_t depth = 0; depth < shape.k; depth += kGradientDepth) {
    const int steps = static_cast<int>(std::min(kGradientDepth, shape.k - depth) / 32);
    const bf16* chunk_a = static_cast<const bf16*>(a) + depth * shape.pitch_a;
    const bf16* chunk_b = static_cast<const bf16*>(b) + depth * shape.pitch_b;
    std::int64_t packed = -1;
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t panel = task / blocks, row = task % blocks * 32;
      const std::int64_t first = shape.n / 32 * panel / panels, last = shape.n / 32 * (panel + 1) / panels;
      for (std::int64_t c = first; c < last && packed != panel; ++c)
        pack_rows_of_b(chunk_b + 32 * c, shape.pitch_b, steps, rows + (c - first) * steps * kBlockWords);
      packed = panel;
      pack_columns_of_a(chunk_a + row, shape.pitch_a, steps, columns);
      for (std::int64_t c = first; c < last; ++c) {
        const TileOperand left = {columns, 16, kBlockWords};
        const TileOperand right = {rows + (c - first) * steps * kBlockWords, 32, kBlockWords};
        float* to = static_cast<float*>(d) + row * shape.pitch_d + 32 * c;
        if (accumulate || depth > 0)
          multiply_block<true>(tiles, left, right, steps, to, static_cast<int>(shape.pitch_d));
        else
          multiply_block<false>(tiles, left, right, steps, to, static_cast<int>(shape.pitch_d));
      }
    }
  }
}

}  // namespace llmc
