// A GEMM as described by a library's descriptors, without assumptions of the row-major caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cublasLt.h"

/// `rows` by `cols`, ld elements between columns (order col) or between rows (order row).
struct cublasLtMatrixLayoutOpaque {
  cudaDataType_t type = CUDA_R_32F;
  std::uint64_t rows = 0, cols = 0;
  std::int64_t ld = 0;
  cublasLtOrder_t order = CUBLASLT_ORDER_COL;
};

struct cublasLtMatmulDescOpaque {
  cublasOperation_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;  // one value per row of D
  cudaDataType_t bias_type = CUDA_R_32F;
  std::int32_t sms = 0;  // 0: all
};

namespace sim {

/// The algorithms: the same GEMM with the sum over k in different orders. On the simulated device's clock `halves` is
/// the fastest for k of 48 or more, and `blocks` is faster than the first by too little to matter.
enum class Summation : std::uint32_t { ascending = 20, halves = 21, blocks = 22 };

struct Product {
  cublasLtMatmulDescOpaque operation;
  cublasLtMatrixLayoutOpaque a, b, c, d;
  float alpha = 1, beta = 0;
  const void *a_data = nullptr, *b_data = nullptr, *c_data = nullptr;
  void* d_data = nullptr;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;  // used by the algorithm
  Summation summation = Summation::ascending;
};

std::size_t element_bytes(cudaDataType_t type);
/// Byte range [first, last) covered by a layout.
std::size_t extent_bytes(const cublasLtMatrixLayoutOpaque& layout);

/// D = alpha op(A) op(B) + beta C, plus bias, all sums fp32. Records the bytes it accesses, and fills its workspace
/// with NaN.
void run(const Product& product);

}  // namespace sim
