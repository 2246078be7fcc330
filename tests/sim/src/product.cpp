#include "product.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "device/math.h"
#include "shadow.h"

namespace sim {
namespace {

using Layout = cublasLtMatrixLayoutOpaque;

struct Strides {
  std::size_t row, col;
};

Strides strides(const Layout& layout) {
  const auto ld = static_cast<std::size_t>(layout.ld);
  return layout.order == CUBLASLT_ORDER_COL ? Strides{1, ld} : Strides{ld, 1};
}

float element(const void* data, cudaDataType_t type, std::size_t index) {
  return type == CUDA_R_16BF ? llmc::to_float(static_cast<const llmc::bf16*>(data)[index])
                             : static_cast<const float*>(data)[index];
}

/// op(matrix) as fp32, rows by cols, packed by rows.
std::vector<float> gather(const Layout& layout, const void* data, bool transpose) {
  const Strides step = strides(layout);
  const std::size_t rows = transpose ? layout.cols : layout.rows, cols = transpose ? layout.rows : layout.cols;
  const std::size_t by_row = transpose ? step.col : step.row, by_col = transpose ? step.row : step.col;
  std::vector<float> packed(rows * cols);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < cols; ++c) packed[r * cols + c] = element(data, layout.type, r * by_row + c * by_col);
  return packed;
}

void note(Access access, const Layout& layout, const void* data) {
  const bool columns = layout.order == CUBLASLT_ORDER_COL;
  const std::size_t bytes = element_bytes(layout.type);
  touch_rows(access, data, columns ? layout.cols : layout.rows, (columns ? layout.rows : layout.cols) * bytes,
             static_cast<std::size_t>(layout.ld) * bytes);
}

/// sums [n] += the row `a` [k] times B [k, n], for k in [begin, end), in this order.
void add_products(const float* a, const std::vector<float>& b, std::size_t n, std::size_t begin, std::size_t end,
                  float* sums) {
  for (std::size_t k = begin; k < end; ++k) {
    const float* row = b.data() + k * n;
    for (std::size_t j = 0; j < n; ++j) sums[j] += a[k] * row[j];
  }
}

/// Length of the parts into which the sum over k is divided.
std::size_t part_of(Summation summation, std::size_t k) {
  if (summation == Summation::ascending) return k;
  return summation == Summation::halves ? (k + 1) / 2 : 32;
}

}  // namespace

std::size_t element_bytes(cudaDataType_t type) { return type == CUDA_R_16BF ? 2 : 4; }

std::size_t extent_bytes(const Layout& layout) {
  const bool columns = layout.order == CUBLASLT_ORDER_COL;
  const std::uint64_t vectors = columns ? layout.cols : layout.rows, length = columns ? layout.rows : layout.cols;
  return ((vectors - 1) * static_cast<std::uint64_t>(layout.ld) + length) * element_bytes(layout.type);
}

void run(const Product& p) {
  note(Access::read, p.a, p.a_data);
  note(Access::read, p.b, p.b_data);
  if (p.beta != 0) note(Access::read, p.c, p.c_data);
  const bool biased = p.operation.epilogue == CUBLASLT_EPILOGUE_BIAS;
  if (biased) touch(Access::read, p.operation.bias, p.d.rows * element_bytes(p.operation.bias_type));
  if (p.workspace_bytes) {
    touch(Access::write, p.workspace, p.workspace_bytes);
    std::memset(p.workspace, 0xff, p.workspace_bytes);
  }

  const std::size_t m = p.d.rows, n = p.d.cols;
  const std::size_t k = p.operation.transpose_a == CUBLAS_OP_T ? p.a.rows : p.a.cols;
  const std::vector<float> a = gather(p.a, p.a_data, p.operation.transpose_a == CUBLAS_OP_T);
  const std::vector<float> b = gather(p.b, p.b_data, p.operation.transpose_b == CUBLAS_OP_T);
  const std::vector<float> c = p.beta != 0 ? gather(p.c, p.c_data, false) : std::vector<float>();
  note(Access::write, p.d, p.d_data);

  const Strides to = strides(p.d);
  const std::size_t part = std::max<std::size_t>(part_of(p.summation, k), 1);
  std::vector<float> sums(n), partial(n);
  for (std::size_t i = 0; i < m; ++i) {
    std::fill(sums.begin(), sums.end(), 0.0f);
    for (std::size_t begin = 0; begin < k; begin += part) {
      std::fill(partial.begin(), partial.end(), 0.0f);
      add_products(a.data() + i * k, b, n, begin, std::min(k, begin + part), partial.data());
      for (std::size_t j = 0; j < n; ++j) sums[j] += partial[j];
    }
    const float bias = biased ? element(p.operation.bias, p.operation.bias_type, i) : 0.0f;
    for (std::size_t j = 0; j < n; ++j) {
      float value = p.alpha * sums[j];
      if (p.beta != 0) value += p.beta * c[i * n + j];
      value += bias;
      const std::size_t index = i * to.row + j * to.col;
      if (p.d.type == CUDA_R_16BF)
        static_cast<llmc::bf16*>(p.d_data)[index] = llmc::from_float<llmc::bf16>(value);
      else
        static_cast<float*>(p.d_data)[index] = value;
    }
  }
}

}  // namespace sim
