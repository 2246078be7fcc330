#include "math/tiles/linear.h"

#include <type_traits>

#include "math/tiles/operands.h"

namespace llmc {
namespace {

/// Rounds a block of sums [32, 32] into D, with its addends. `bias` and `c` are null if absent.
template <bool kStreams, class Result>
LLMC_TILE void finish_block(const GemmShape& shape, const float* sums, const Result* bias, const Result* c, Result* d) {
  const std::int64_t pitch = shape.pitch_d;
  for (int r = 0; r < 32; ++r) {
    vector value[2];
    for (int v = 0; v < 2; ++v) {
      value[v] = shape.alpha * load(sums + r * 32 + v * kVectorLanes);
      if (bias) value[v] += load(bias + v * kVectorLanes);
      if (c) value[v] += shape.beta * load(c + r * pitch + v * kVectorLanes);
    }
    if constexpr (sizeof(Result) == 2) {
      store_line<kStreams>(d + r * pitch, joined(round_to_half(value[0]), round_to_half(value[1])));
    } else {
      for (int v = 0; v < 2; ++v) store_line<kStreams>(d + r * pitch + v * kVectorLanes, (halves)value[v]);
    }
  }
}

/// Rows and columns of D that one thread computes.
struct Share {
  std::int64_t row, row_end, column, column_end;
};

template <bool kStreams, class T, class Result>
void multiply(const GemmShape& shape, const T* a, const T* b, const Result* bias, const Result* c, Result* d,
              const Share& share, float* workspace) {
  const std::int64_t columns = linear_panel_columns(shape), depth = linear_depth(shape);
  const int steps = static_cast<int>(shape.k / 32);
  const int chunks = static_cast<int>((shape.k + depth - 1) / depth);
  float* panel = workspace;
  float* sums = panel + columns / 32 * steps * kStepWords<T>;
  float* rows = sums + columns * 32;
  Tiles tiles;
  for (std::int64_t first = share.column; first < share.column_end; first += columns) {
    const std::int64_t blocks = std::min(columns, share.column_end - first) / 32;
    for (std::int64_t block = 0; block < blocks; ++block) {
      const std::int64_t column = first + 32 * block;
      float* to = panel + block * steps * kStepWords<T>;
      if (shape.transpose_b)
        pack_columns_of_b(b + column * shape.pitch_b, shape.pitch_b, steps, to);
      else
        pack_rows_of_b(b + column, shape.pitch_b, steps, to);
    }
    for (std::int64_t row = share.row; row < share.row_end; row += 32) {
      for (int chunk = 0; chunk < chunks; ++chunk) {
        const int step = steps * chunk / chunks, count = steps * (chunk + 1) / chunks - step;
        const TileOperand left = rows_of_a(a + row * shape.pitch_a + 32 * step, shape.pitch_a, count, rows);
        for (std::int64_t block = 0; block < blocks; ++block) {
          const TileOperand right = {panel + (block * steps + step) * kStepWords<T>, 32, kStepWords<T>};
          float* block_sums = sums + (chunks == 1 ? block % 2 : block) * 32 * 32;
          if (chunk > 0)
            multiply_copies<T, true>(tiles, left, right, count, block_sums);
          else
            multiply_copies<T, false>(tiles, left, right, count, block_sums);
          if (chunk + 1 < chunks) continue;
          const std::int64_t column = first + 32 * block, place = row * shape.pitch_d + column;
          finish_block<kStreams>(shape, block_sums, bias ? bias + column : nullptr, c ? c + place : nullptr, d + place);
        }
      }
    }
  }
  streams_end<kStreams>();
}

}  // namespace

void linear_product(const GemmShape& shape, const void* a, const void* b, const void* bias, const void* c, void* d,
                    int part, int parts, void* workspace) {
  // Each thread copies its part of B, so it gets 256 rows if there are enough, and then fewer columns.
  std::int64_t across = std::min({std::max(std::int64_t{1}, 256 * parts / shape.m), shape.n / 32, std::int64_t{parts}});
  while (parts % across) --across;
  const std::int64_t down = parts / across, i = part / across, j = part % across;
  const Share share = {shape.m / 32 * i / down * 32, shape.m / 32 * (i + 1) / down * 32, shape.n / 32 * j / across * 32,
                       shape.n / 32 * (j + 1) / across * 32};
  // Streaming stores for results that no cache keeps until they are read; they do not read old lines.
  const std::int64_t size = bytes_of(shape.d().dtype, 1);
  const bool streams = shape.m * shape.n * size / parts > kLinearStream && shape.pitch_d * size % 64 == 0 &&
                       reinterpret_cast<std::uintptr_t>(d) % 64 == 0;
  const auto run = [&](auto stream, auto operand, auto result) {
    using T = decltype(operand);
    using Result = decltype(result);
    multiply<decltype(stream)::value>(shape, static_cast<const T*>(a), static_cast<const T*>(b),
                                      static_cast<const Result*>(bias), static_cast<const Result*>(c),
                                      static_cast<Result*>(d), share, static_cast<float*>(workspace));
  };
  const auto of_types = [&](auto operand, auto result) {
    streams ? run(std::true_type{}, operand, result) : run(std::false_type{}, operand, result);
  };
  if (shape.operand == DType::f32)
    of_types(float{}, float{});
  else if (shape.result == DType::f32)
    of_types(bf16{}, float{});
  else
    of_types(bf16{}, bf16{});
}

}  // namespace llmc
