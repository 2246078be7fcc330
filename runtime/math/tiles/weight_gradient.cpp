#include "math/tiles/weight_gradient.h"

#include <type_traits>

#include "math/tiles/operands.h"

namespace llmc {
namespace {

constexpr int kChunk = 8;  // steps of 32 along the sum at a time: a strip's stay in a core's first cache

/// A block of sums [32, 32] to its place in D, or added to what is there; its transpose where D^T was computed.
template <bool kTransposed, bool kStreams>
LLMC_TILE void finish_block(const float* sums, float* d, std::int64_t pitch, bool add) {
  for (int row = 0; row < 32; row += kVectorLanes) {
    for (int column = 0; column < 32; column += kVectorLanes) {
      vector lines[kVectorLanes];
      for (int r = 0; r < kVectorLanes; ++r)
        lines[r] = load(kTransposed ? sums + (column + r) * 32 + row : sums + (row + r) * 32 + column);
      if (kTransposed) transpose(lines);
      for (int r = 0; r < kVectorLanes; ++r) {
        float* to = d + (row + r) * pitch + column;
        if (add)
          store(to, load(to) + lines[r]);
        else
          store_line<kStreams>(to, (halves)lines[r]);
      }
    }
  }
}

/// A matrix [k, columns] of which columns are copied.
struct Operand {
  const bf16* data;
  std::int64_t pitch, columns;
};

template <bool kTransposed, bool kStreams>
void multiply(const GemmShape& shape, const Operand& narrow, const Operand& wide, float* d, bool accumulate, int part,
              int parts, float* copies) {
  const std::int64_t width = gradient_panel_columns(shape), strips = wide.columns / 32;
  // Shares are strips of the wide operand, beside all of the narrow one unless there are more threads than strips.
  const std::int64_t panels =
      std::max((narrow.columns + width - 1) / width, std::min((parts + strips - 1) / strips, narrow.columns / 32));
  const std::int64_t begin = strips * panels * part / parts, end = strips * panels * (part + 1) / parts;
  if (begin == end) return;
  float* left = copies;
  float* right = left + width * kGradientDepth / 2;
  float* sums = right + kGradientStrips * 32 * kGradientDepth / 2;
  Tiles tiles;
  for (std::int64_t depth = 0; depth < shape.k; depth += kGradientDepth) {
    const int steps = static_cast<int>(std::min(kGradientDepth, shape.k - depth) / 32);
    std::int64_t packed = -1;
    for (std::int64_t task = begin; task < end;) {
      const std::int64_t panel = task / strips, strip = task % strips;
      const std::int64_t count = std::min({kGradientStrips, end - task, strips - strip});
      const std::int64_t first = narrow.columns / 32 * panel / panels,
                         blocks = narrow.columns / 32 * (panel + 1) / panels - first;
      if (packed != panel) {
        for (int step = 0; step < steps; ++step)
          for (std::int64_t block = 0; block < blocks; ++block)
            pack_columns_of_a(narrow.data + (depth + 32 * step) * narrow.pitch + 32 * (first + block), narrow.pitch, 1,
                              left + (block * steps + step) * kBlockWords);
        packed = panel;
      }
      for (int step = 0; step < steps; ++step)
        for (std::int64_t s = 0; s < count; ++s)
          pack_rows_of_b(wide.data + (depth + 32 * step) * wide.pitch + 32 * (strip + s), wide.pitch, 1,
                         right + (s * steps + step) * kBlockWords);
      for (int step = 0; step < steps; step += kChunk) {
        const int chunk = std::min(kChunk, steps - step);
        for (std::int64_t s = 0; s < count; ++s) {
          for (std::int64_t block = 0; block < blocks; ++block) {
            const TileOperand of_left = {left + (block * steps + step) * kBlockWords, 16, kBlockWords};
            const TileOperand of_right = {right + (s * steps + step) * kBlockWords, 32, kBlockWords};
            float* block_sums = sums + (s * blocks + block) * 32 * 32;
            if (step > 0)
              multiply_block<true>(tiles, of_left, of_right, chunk, block_sums, 32);
            else
              multiply_block<false>(tiles, of_left, of_right, chunk, block_sums, 32);
            if (step + chunk < steps) continue;
            const std::int64_t of_narrow = 32 * (first + block), of_wide = 32 * (strip + s);
            const std::int64_t row = kTransposed ? of_wide : of_narrow, column = kTransposed ? of_narrow : of_wide;
            finish_block<kTransposed, kStreams>(block_sums, d + row * shape.pitch_d + column, shape.pitch_d,
                                                accumulate || depth > 0);
          }
        }
      }
      task += count;
    }
  }
  streams_end<kStreams>();
}

}  // namespace

void weight_gradient(const GemmShape& shape, const void* a, const void* b, void* d, bool accumulate, int part,
                     int parts, void* copies) {
  // One operand has to be transposed, element by element: the narrow one. Where that is B, the product is D^T = B^T A.
  const Operand of_a = {static_cast<const bf16*>(a), shape.pitch_a, shape.m};
  const Operand of_b = {static_cast<const bf16*>(b), shape.pitch_b, shape.n};
  // A gradient is not read before the step's end.
  const bool streams = shape.pitch_d % 16 == 0 && reinterpret_cast<std::uintptr_t>(d) % 64 == 0;
  const auto run = [&](auto transposed, auto stream) {
    multiply<decltype(transposed)::value, decltype(stream)::value>(
        shape, transposed ? of_b : of_a, transposed ? of_a : of_b, static_cast<float*>(d), accumulate, part, parts,
        static_cast<float*>(copies));
  };
  using Yes = std::true_type;
  using No = std::false_type;
  if (shape.m < shape.n)
    streams ? run(No{}, Yes{}) : run(No{}, No{});
  else
    streams ? run(Yes{}, Yes{}) : run(Yes{}, No{});
}

}  // namespace llmc
