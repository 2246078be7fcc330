#include "math/tiles/weight_gradient.h"

#include <type_traits>

#include "math/tiles/operands.h"

namespace llmc {
namespace {

/// Steps of 32 along the sum at a time: a strip's steps stay in a core's L1 cache.
template <class T>
constexpr int kChunk = 8 / kParts<T>;

/// Stores alpha times a block of sums [32, 32] to D, or adds it to beta D; its transpose if D^T was computed.
template <bool kTransposed, bool kStreams>
LLMC_TILE void finish_block(const float* sums, float* d, std::int64_t pitch, float alpha, bool add, float beta) {
  for (int row = 0; row < 32; row += kVectorLanes) {
    for (int column = 0; column < 32; column += kVectorLanes) {
      vector lines[kVectorLanes];
      for (int r = 0; r < kVectorLanes; ++r)
        lines[r] = load(kTransposed ? sums + (column + r) * 32 + row : sums + (row + r) * 32 + column);
      if (kTransposed) transpose(lines);
      for (int r = 0; r < kVectorLanes; ++r) {
        float* to = d + (row + r) * pitch + column;
        if (add)
          store(to, beta * load(to) + alpha * lines[r]);
        else
          store_line<kStreams>(to, (halves)(alpha * lines[r]));
      }
    }
  }
}

/// A matrix [k, columns] whose columns are copied.
template <class T>
struct Operand {
  const T* data;
  std::int64_t pitch, columns;
};

template <bool kTransposed, bool kStreams, class T>
void multiply(const GemmShape& shape, const Operand<T>& narrow, const Operand<T>& wide, float* d, bool accumulate,
              int part, int parts, float* copies) {
  const std::int64_t width = gradient_panel_columns(shape), most = gradient_depth(shape), strips = wide.columns / 32;
  // Work is divided into strips of the wide operand times the whole narrow one, unless there are more threads than
  // strips.
  const std::int64_t panels =
      std::max((narrow.columns + width - 1) / width, std::min((parts + strips - 1) / strips, narrow.columns / 32));
  const std::int64_t begin = strips * panels * part / parts, end = strips * panels * (part + 1) / parts;
  if (begin == end) return;
  float* left = copies;
  float* right = left + width / 32 * most / 32 * kStepWords<T>;
  float* sums = right + kGradientStrips * most / 32 * kStepWords<T>;
  Tiles tiles;
  for (std::int64_t depth = 0; depth < shape.k; depth += most) {
    const int steps = static_cast<int>(std::min(most, shape.k - depth) / 32);
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
                              left + (block * steps + step) * kStepWords<T>);
        packed = panel;
      }
      for (int step = 0; step < steps; ++step)
        for (std::int64_t s = 0; s < count; ++s)
          pack_rows_of_b(wide.data + (depth + 32 * step) * wide.pitch + 32 * (strip + s), wide.pitch, 1,
                         right + (s * steps + step) * kStepWords<T>);
      for (int step = 0; step < steps; step += kChunk<T>) {
        const int chunk = std::min(kChunk<T>, steps - step);
        for (std::int64_t s = 0; s < count; ++s) {
          for (std::int64_t block = 0; block < blocks; ++block) {
            const TileOperand of_left = {left + (block * steps + step) * kStepWords<T>, 16, kStepWords<T>};
            const TileOperand of_right = {right + (s * steps + step) * kStepWords<T>, 32, kStepWords<T>};
            float* block_sums = sums + (s * blocks + block) * 32 * 32;
            if (step > 0)
              multiply_copies<T, true>(tiles, of_left, of_right, chunk, block_sums);
            else
              multiply_copies<T, false>(tiles, of_left, of_right, chunk, block_sums);
            if (step + chunk < steps) continue;
            const std::int64_t of_narrow = 32 * (first + block), of_wide = 32 * (strip + s);
            const std::int64_t row = kTransposed ? of_wide : of_narrow, column = kTransposed ? of_narrow : of_wide;
            finish_block<kTransposed, kStreams>(block_sums, d + row * shape.pitch_d + column, shape.pitch_d,
                                                shape.alpha, accumulate || depth > 0, depth > 0 ? 1 : shape.beta);
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
  // A gradient is not read before the step's end.
  const bool streams = shape.pitch_d % 16 == 0 && reinterpret_cast<std::uintptr_t>(d) % 64 == 0;
  const auto run = [&](auto operand, auto transposed, auto stream) {
    // One operand must be transposed element by element: the narrow one. If that is B, the product is D^T = B^T A.
    using T = decltype(operand);
    const Operand<T> of_a = {static_cast<const T*>(a), shape.pitch_a, shape.m};
    const Operand<T> of_b = {static_cast<const T*>(b), shape.pitch_b, shape.n};
    multiply<decltype(transposed)::value, decltype(stream)::value>(
        shape, transposed ? of_b : of_a, transposed ? of_a : of_b, static_cast<float*>(d), accumulate, part, parts,
        static_cast<float*>(copies));
  };
  using Yes = std::true_type;
  using No = std::false_type;
  const auto of_type = [&](auto operand) {
    if (shape.m < shape.n)
      streams ? run(operand, No{}, Yes{}) : run(operand, No{}, No{});
    else
      streams ? run(operand, Yes{}, Yes{}) : run(operand, Yes{}, No{});
  };
  if (shape.operand == DType::f32)
    of_type(float{});
  else
    of_type(bf16{});
}

}  // namespace llmc
