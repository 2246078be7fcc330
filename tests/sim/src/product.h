// A matrix product as a GEMM library runs it: what its descriptors say, and nothing that only a row-major caller knows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cublasLt.h"

/// `rows` by `cols`, ld elements from one column to the next (order col) or from one row to the next (order row).
struct cublasLtMatrixLayoutOpaque {
  cudaDataType_t type = CUDA_R_32F;
  std::uint64_t rows = 0, cols = 0;
  std::int64_t ld = 0;
  cublasLtOrder_t order = CUBLASLT_ORDER_COL;
};

struct cublasLtMatmulDescOpaque {
  cublasOperation_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;  // one value for each row of D
  cudaDataType_t bias_type = CUDA_R_32F;
  std::int32_t sms = 0;  // 0: all
};

namespace sim {

/// The algorithms: the same product with the sum over k in another order. On the simulated device's clock halves is the
/// fastest for a k of 48 or more, and blocks faster than the first by less than is worth a change.
enum class Summation : std::uint32_t { ascending = 20, halves = 21, blocks = 22 };

struct Product {
  cublasLtMatmulDescOpaque operation;
  cublasLtMatrixLayoutOpaque a, b, c, d;
  float alpha = 1, beta = 0;
  const void *a_data = nullptr, *b_data = nullptr, *c_data = nullptr;
  void* d_data = nullptr;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;  // that the algorithm uses
  Summation summation = Summation::ascending;
};

std::size_t element_bytes(cudaDataType_t type);
/// [first, last) of what a layout reaches, in bytes.
std::size_t extent_bytes(const cublasLtMatrixLayoutOpaque& layout);

/// D = alpha op(A) op(B) + beta C, plus bias, all sums fp32. Notes the bytes it touches, and leaves NaN in its
/// workspace.
void run(const Product& product);

}  // namespace sim
