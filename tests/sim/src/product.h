// A GEMM as described by a library's descriptors, without assumptions of the row-major caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cublasLt.h"

/// `rows` by `cols`, ld elements between columns (order col) or between rows (order row).
struct cublasLtMatrixLayoutOpaque {
  cudaDataType_t type = CUDA_R_32F;
  std::uint64_t rows = 0, cols = 0;
  std::int64_t ld = 0;
  cublasLtOrder_t order = CUBLASLT_ORDER_COL;
};

namespace sim {

/// Scales of one matrix: fp32 numbers on the device, or null.
struct Scales {
  const void* values = nullptr;
  cublasLtMatmulMatrixScale_t mode = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
};

}  // namespace sim

struct cublasLtMatmulDescOpaque {
  cublasOperation_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;  // one value per row of D
  cudaDataType_t bias_type = CUDA_R_32F;
  std::int32_t sms = 0;  // 0: all
  sim::Scales scale_a, scale_b, scale_c, scale_d;
  std::int8_t fast_accumulation = 0;
  bool tf32 = false;  // CUBLAS_COMPUTE_32F_FAST_TF32
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

inline bool has_8_bits(cudaDataType_t type) { return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2; }
std::size_t element_bytes(cudaDataType_t type);
/// Number of the code, exactly.
float e4m3_number(unsigned char code);
float e5m2_number(unsigned char code);
/// Byte range [first, last) covered by a layout.
std::size_t extent_bytes(const cublasLtMatrixLayoutOpaque& layout);

/// Describes an overlap of D or of the workspace with what the product reads, or returns nothing. D may be C.
std::string overlap(const Product& product);

/// D = alpha op(A) op(B) + beta C, plus bias, all sums fp32. Scales of A and B are factors of op(A) op(B). Fast
/// accumulation of 8 bits cuts sums to 14 significant bits after every 32 products. In tf32 the mantissas of A and B
/// are cut to 10 bits. Records the bytes it accesses, and fills its workspace with NaN.
void run(const Product& product);

}  // namespace sim
