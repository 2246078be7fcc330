// Matrices on the device, and a fixture that multiplies them by cuBLASLt's calls.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <ostream>
#include <random>
#include <vector>

#include "device/fp8.h"
#include "device/math.h"
#include "device_memory.h"

namespace llmc {

inline std::vector<float> normal(std::size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> draw;
  std::vector<float> values(count);
  for (float& value : values) value = to_float(from_float<bf16>(draw(generator)));
  return values;
}

struct Matrix {
  Matrix(std::size_t rows, std::size_t cols, std::size_t ld, bool row_major, cudaDataType_t dtype, unsigned seed)
      : Matrix(rows, cols, ld, row_major, dtype, normal(ld * (row_major ? rows : cols), seed)) {}
  /// Of these elements, with what is between the columns (rows).
  Matrix(std::size_t rows, std::size_t cols, std::size_t ld, bool row_major, cudaDataType_t dtype,
         const std::vector<float>& elements)
      : r(rows), c(cols), ld(ld), by_row(row_major), type(dtype), values(elements), memory(bytes()) {
    std::vector<unsigned char> raw(bytes());
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (type == CUDA_R_8F_E4M3)
        values[i] = to_float(reinterpret_cast<e4m3*>(raw.data())[i] = from_float<e4m3>(values[i]));
      else if (type == CUDA_R_16BF)
        reinterpret_cast<bf16*>(raw.data())[i] = from_float<bf16>(values[i]);
      else if (type == CUDA_R_32F)
        reinterpret_cast<float*>(raw.data())[i] = values[i];
    }
    cudaMemcpy(memory, raw.data(), raw.size(), cudaMemcpyHostToDevice);
    cublasLtMatrixLayoutCreate(&layout, type, rows, cols, static_cast<std::int64_t>(ld));
    const cublasLtOrder_t order = row_major ? CUBLASLT_ORDER_ROW : CUBLASLT_ORDER_COL;
    EXPECT_EQ(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_ORDER, &order, sizeof order),
              CUBLAS_STATUS_SUCCESS);
  }
  ~Matrix() { cublasLtMatrixLayoutDestroy(layout); }
  std::size_t bytes() const { return values.size() * (type == CUDA_R_32F ? 4 : type == CUDA_R_16BF ? 2 : 1); }
  std::size_t index(std::size_t row, std::size_t col) const { return by_row ? row * ld + col : col * ld + row; }
  double at(std::size_t row, std::size_t col) const { return values[index(row, col)]; }
  std::vector<float> result() const {
    const std::vector<unsigned char> raw = memory.host();
    std::vector<float> out(values.size());
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = type == CUDA_R_16BF ? to_float(reinterpret_cast<const bf16*>(raw.data())[i])
                                   : reinterpret_cast<const float*>(raw.data())[i];
    return out;
  }

  std::size_t r, c, ld;
  bool by_row;
  cudaDataType_t type;
  std::vector<float> values;
  Memory<unsigned char> memory;
  cublasLtMatrixLayout_t layout = nullptr;
};

struct Case {
  bool transpose_a, transpose_b, rows_d, bias;
  cudaDataType_t operand, result;
  float alpha, beta;
};

/// For GoogleTest, which would print a case as bytes.
inline void PrintTo(const Case& c, std::ostream* out) {
  *out << (c.transpose_a ? "A^T" : "A") << (c.transpose_b ? " B^T" : " B") << (c.rows_d ? " by rows" : "")
       << (c.bias ? " bias" : "") << (c.operand == CUDA_R_16BF ? " bf16" : " fp32")
       << (c.result == CUDA_R_16BF ? " bf16 " : " fp32 ") << c.alpha << ' ' << c.beta;
}

constexpr std::size_t kWorkspace = 1 << 16;

class Products : public testing::Test {
 protected:
  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, Value value) {
    EXPECT_EQ(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof value), CUBLAS_STATUS_SUCCESS);
  }
  void describe(const Case& of, const void* bias, cudaDataType_t bias_type = CUDA_R_32F) {
    cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    set(CUBLASLT_MATMUL_DESC_TRANSA, of.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, of.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (!bias) return;
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, bias_type);
  }
  int choose(const Matrix& a, const Matrix& b, const Matrix& c, const Matrix& d, std::uint64_t workspace,
             std::uint32_t alignment_of_b = 256) {
    cublasLtMatmulPreference_t preference = nullptr;
    cublasLtMatmulPreferenceCreate(&preference);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                         sizeof workspace);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &alignment_of_b,
                                         sizeof alignment_of_b);
    int count = 0;
    status = cublasLtMatmulAlgoGetHeuristic(nullptr, operation, a.layout, b.layout, c.layout, d.layout, preference, 8,
                                            found, &count);
    cublasLtMatmulPreferenceDestroy(preference);
    return count;
  }
  cublasStatus_t multiply(const Case& of, const Matrix& a, const Matrix& b, const Matrix& c, const Matrix& d,
                          int algorithm) {
    return cublasLtMatmul(nullptr, operation, &of.alpha, a.memory, a.layout, b.memory, b.layout, &of.beta, c.memory,
                          c.layout, d.memory, d.layout, &found[algorithm].algo, workspace, kWorkspace, stream.handle);
  }
  ~Products() override { cublasLtMatmulDescDestroy(operation); }

  TestStream stream;
  Memory<unsigned char> workspace{kWorkspace};
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatmulHeuristicResult_t found[8] = {};
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
};

}  // namespace llmc
