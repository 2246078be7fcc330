#include "math/tiles/weight_gradient.h"

#include <algorithm>

#include "math/tiles/operands.h"

namespace llmc {

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
