#include "compiler/tools/float64/arithmetic.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

// Compiles a version with fused multiply-adds of 256 bits; the loader selects it where the processor has them.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define LLMC_CLONES __attribute__((target_clones("fma", "default")))
#else
#define LLMC_CLONES
#endif

namespace llmc::float64 {
namespace {

/// A register of AVX2: g++ 12 keeps wider ones in memory.
using Vector = double __attribute__((vector_size(32)));
constexpr int kLanes = 4;
constexpr int kBlockRows = 6, kBlockVectors = 2,
              kBlockCols = kBlockVectors * kLanes;  // of d at once: 12 of 16 registers

/// Computes d[kBlockRows][kBlockCols] = rows of a times a panel of b, [k, kBlockCols].
LLMC_CLONES void multiply_block(std::int64_t k, const double* a, std::int64_t row_step, std::int64_t step,
                                const double* panel, double* d) {
  Vector sums[kBlockRows][kBlockVectors] = {};
  for (std::int64_t i = 0; i < k; ++i) {
    Vector b[kBlockVectors];
    std::memcpy(b, panel + i * kBlockCols, sizeof b);
    for (int r = 0; r < kBlockRows; ++r)
      for (int v = 0; v < kBlockVectors; ++v) sums[r][v] += a[r * row_step + i * step] * b[v];
  }
  std::memcpy(d, sums, sizeof sums);
}

}  // namespace

void multiply(const Matrix& a, bool transpose_a, const Matrix& b, bool transpose_b, const Matrix& d, bool adds) {
  const std::int64_t k = transpose_a ? a.rows : a.cols, panels = (d.cols + kBlockCols - 1) / kBlockCols;
  const std::int64_t a_row = transpose_a ? 1 : a.pitch, a_step = transpose_a ? a.pitch : 1;
  const std::int64_t b_col = transpose_b ? b.pitch : 1, b_step = transpose_b ? 1 : b.pitch;
#pragma omp parallel
  {
    std::vector<double> panel(static_cast<std::size_t>(k * kBlockCols));
    std::vector<double> rest(static_cast<std::size_t>(k * kBlockRows));
    double block[kBlockRows * kBlockCols];
#pragma omp for schedule(dynamic)
    for (std::int64_t p = 0; p < panels; ++p) {
      const std::int64_t first = p * kBlockCols, width = std::min<std::int64_t>(kBlockCols, d.cols - first);
      for (std::int64_t i = 0; i < k; ++i)
        for (std::int64_t c = 0; c < kBlockCols; ++c)
          panel[static_cast<std::size_t>(i * kBlockCols + c)] =
              c < width ? b.data[(first + c) * b_col + i * b_step] : 0.0;
      for (std::int64_t row = 0; row < d.rows; row += kBlockRows) {
        const std::int64_t height = std::min<std::int64_t>(kBlockRows, d.rows - row);
        if (height == kBlockRows) {
          multiply_block(k, a.data + row * a_row, a_row, a_step, panel.data(), block);
        } else {
          std::fill(rest.begin(), rest.end(), 0.0);
          for (std::int64_t r = 0; r < height; ++r)
            for (std::int64_t i = 0; i < k; ++i)
              rest[static_cast<std::size_t>(r * k + i)] = a.data[(row + r) * a_row + i * a_step];
          multiply_block(k, rest.data(), k, 1, panel.data(), block);
        }
        for (std::int64_t r = 0; r < height; ++r)
          for (std::int64_t c = 0; c < width; ++c) {
            double& to = d.at(row + r, first + c);
            to = (adds ? to : 0.0) + block[r * kBlockCols + c];
          }
      }
    }
  }
}

LLMC_CLONES void add_scaled(std::int64_t n, double factor, const double* x, double* y) {
  for (std::int64_t i = 0; i < n; ++i) y[i] += factor * x[i];
}

double dot(std::int64_t n, const double* x, const double* y) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += x[i] * y[i];
  return sum;
}

double largest(std::int64_t n, const double* x) {
  double most = 0;
  for (std::int64_t i = 0; i < n; ++i) most = std::max(most, std::abs(x[i]));
  return most;
}

double length(std::int64_t n, const double* x) { return std::sqrt(dot(n, x, x)); }

std::vector<double> row_norms_of(const Matrix& m, bool transposed) {
  std::vector<double> squares(static_cast<std::size_t>(transposed ? m.cols : m.rows));
  for (std::int64_t i = 0; i < m.rows; ++i)
    for (std::int64_t j = 0; j < m.cols; ++j)
      squares[static_cast<std::size_t>(transposed ? j : i)] += m.at(i, j) * m.at(i, j);
  for (double& square : squares) square = std::sqrt(square);
  return squares;
}

}  // namespace llmc::float64
