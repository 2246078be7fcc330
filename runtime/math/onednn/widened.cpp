#include "math/onednn/widened.h"

#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <bit>
#include <cstdint>

#include "device/types.h"

namespace llmc {
namespace {

// An element is widened for every 256 multiplications, and the workspace stays below kMostScratchpad (gemm.cpp).
constexpr std::int64_t kRows = 256, kCols = 512, kDepth = 2048;
constexpr std::int64_t kElementsA = kRows * kDepth, kElementsB = kDepth * kCols, kSums = kRows * kCols;

float wide(bf16 value) { return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16); }

/// Rounds to nearest, ties to even; NaN stays NaN.
bf16 narrow(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) return {static_cast<unsigned short>(bits >> 16 | 0x40)};
  return {static_cast<unsigned short>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

float read(const void* from, DType dtype, std::int64_t i) {
  return dtype == DType::f32 ? static_cast<const float*>(from)[i] : wide(static_cast<const bf16*>(from)[i]);
}

/// Widens elements [row, row + rows) x [col, col + cols) of a matrix as stored, without its padding.
void widen(const GemmMatrix& of, const void* from, std::int64_t row, std::int64_t rows, std::int64_t col,
           std::int64_t cols, float* to, int threads) {
  const std::int64_t first = row * of.pitch + col;
#pragma omp parallel for num_threads(threads)
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c) to[r * cols + c] = read(from, of.dtype, first + r * of.pitch + c);
}

/// Writes one block of D from its sums: adds the bias and the other addends in fp32.
void finish(const GemmShape& shape, const GemmOperands& o, std::int64_t row, std::int64_t rows, std::int64_t col,
            std::int64_t cols, const float* sums, int threads) {
#pragma omp parallel for num_threads(threads)
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c) {
      const std::int64_t at = (row + r) * shape.pitch_d + col + c;
      float value = shape.alpha * sums[r * cols + c];
      if (o.bias) value += read(o.bias, shape.d().dtype, col + c);
      if (o.c) value += shape.beta * read(o.c, shape.c().dtype, at);
      if (o.accumulate) value += shape.beta * read(o.d, shape.d().dtype, at);
      if (shape.d().dtype == DType::f32)
        static_cast<float*>(o.d)[at] = value;
      else
        static_cast<bf16*>(o.d)[at] = narrow(value);
    }
}

}  // namespace

std::size_t widened_workspace() { return (kElementsA + kElementsB + kSums) * sizeof(float); }

bool widened_product(const GemmShape& shape, const GemmOperands& o, int threads, void* workspace) {
  float* a = static_cast<float*>(workspace);
  float* b = a + kElementsA;
  float* sums = b + kElementsB;
  for (std::int64_t col = 0; col < shape.n; col += kCols)
    for (std::int64_t row = 0; row < shape.m; row += kRows) {
      const std::int64_t rows = std::min(kRows, shape.m - row), cols = std::min(kCols, shape.n - col);
      for (std::int64_t begin = 0; begin < shape.k; begin += kDepth) {
        const std::int64_t depth = std::min(kDepth, shape.k - begin);
        if (shape.transpose_a)
          widen(shape.a(), o.a, begin, depth, row, rows, a, threads);
        else
          widen(shape.a(), o.a, row, rows, begin, depth, a, threads);
        if (shape.transpose_b)
          widen(shape.b(), o.b, col, cols, begin, depth, b, threads);
        else
          widen(shape.b(), o.b, begin, depth, col, cols, b, threads);
        const dnnl_status_t status = dnnl_sgemm(shape.transpose_a ? 'T' : 'N', shape.transpose_b ? 'T' : 'N', rows,
                                                cols, depth, 1.0f, a, shape.transpose_a ? rows : depth, b,
                                                shape.transpose_b ? depth : cols, begin ? 1.0f : 0.0f, sums, cols);
        if (status != dnnl_success) return false;
      }
      finish(shape, o, row, rows, col, cols, sums, threads);
    }
  return true;
}

}  // namespace llmc
