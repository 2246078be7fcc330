// GEMMs from cuBLASLt's descriptors: every layout against sums in double, algorithms, checks.
#include "products.h"

#include <cmath>

namespace llmc {
namespace {

constexpr std::size_t kM = 20, kN = 13, kK = 37;

class ProductCases : public Products, public testing::WithParamInterface<Case> {};

TEST_P(ProductCases, EqualSumsInDouble) {
  const Case& of = GetParam();
  const Matrix a(of.transpose_a ? kK : kM, of.transpose_a ? kM : kK, 40, false, of.operand, 1);
  const Matrix b(of.transpose_b ? kN : kK, of.transpose_b ? kK : kN, 48, false, of.operand, 2);
  const Matrix c(kM, kN, 24, of.rows_d, of.result, 3), d(kM, kN, 24, of.rows_d, of.result, 4);
  const std::vector<float> bias = normal(kM, 5);
  const Memory<float> device_bias(bias);
  describe(of, of.bias ? static_cast<float*>(device_bias) : nullptr);
  ASSERT_EQ(choose(a, b, c, d, kWorkspace), 3);
  for (int algorithm = 0; algorithm < 3; ++algorithm) {
    ASSERT_EQ(multiply(of, a, b, c, d, algorithm), CUBLAS_STATUS_SUCCESS);
    std::vector<float> got = d.result();
    for (std::size_t i = 0; i < kM; ++i)
      for (std::size_t j = 0; j < kN; ++j) {
        double sum = 0;
        for (std::size_t k = 0; k < kK; ++k)
          sum += (of.transpose_a ? a.at(k, i) : a.at(i, k)) * (of.transpose_b ? b.at(j, k) : b.at(k, j));
        const double exact = of.alpha * sum + of.beta * c.at(i, j) + (of.bias ? bias[i] : 0.0);
        // One rounding to bf16, or the roundings of a sum of 37 in fp32, of numbers up to about 40.
        const double tolerance = of.result == CUDA_R_16BF ? std::abs(exact) / 256 + 1e-5 : 2e-5;
        ASSERT_NEAR(got[d.index(i, j)], exact, tolerance) << i << ", " << j << ", algorithm " << algorithm;
        got[d.index(i, j)] = d.values[d.index(i, j)];
      }
    ASSERT_EQ(got, d.values) << "bytes between the rows of D were written";
  }
  EXPECT_TRUE(std::isnan(reinterpret_cast<const float*>(workspace.host().data())[0]))
      << "a workspace does not keep its bytes";
}

constexpr cudaDataType_t kHalf = CUDA_R_16BF, kFull = CUDA_R_32F;
INSTANTIATE_TEST_SUITE_P(Cases, ProductCases,
                         testing::Values(Case{false, false, false, false, kFull, kFull, 1, 0},
                                         Case{true, false, false, false, kHalf, kFull, 1, 1},
                                         Case{false, true, false, false, kHalf, kHalf, 1, 0},
                                         Case{true, true, false, true, kHalf, kHalf, 0.5f, 2},
                                         Case{true, false, true, true, kFull, kFull, -1, 0},
                                         Case{false, true, true, false, kHalf, kFull, 1, 1}));

TEST_F(Products, AlgorithmsDifferInTheirOrderOfSums) {
  const Matrix a(kM, 200, 24, false, kFull, 1), b(200, kN, 200, false, kFull, 2), d(kM, kN, 24, false, kFull, 3);
  const Case plain = {false, false, false, false, kFull, kFull, 1, 0};
  describe(plain, nullptr);
  ASSERT_EQ(choose(a, b, d, d, kWorkspace), 3);
  std::vector<std::vector<float>> results;
  for (int algorithm = 0; algorithm < 3; ++algorithm) {
    int id = 0;
    EXPECT_EQ(
        cublasLtMatmulAlgoConfigGetAttribute(&found[algorithm].algo, CUBLASLT_ALGO_CONFIG_ID, &id, sizeof id, nullptr),
        CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(id, 20 + algorithm);
    multiply(plain, a, b, d, d, algorithm);
    results.push_back(d.result());
  }
  EXPECT_NE(results[0], results[1]);
  EXPECT_NE(results[0], results[2]);
  EXPECT_NE(results[1], results[2]);
  cublasLtMatmulHeuristicResult_t checked = {};
  EXPECT_EQ(
      cublasLtMatmulAlgoCheck(nullptr, operation, a.layout, b.layout, d.layout, d.layout, &found[1].algo, &checked),
      CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(checked.workspaceSize, found[1].workspaceSize);
}

TEST_F(Products, Tf32ReadsTenBitsOfFp32) {
  std::vector<float> elements(16 * 16, 1.0f + 0x1.8p-11f);  // three quarters of the last bit that is read
  const Matrix a(16, 16, 16, false, kFull, elements), b(16, 16, 16, false, kFull, std::vector<float>(16 * 16, 1.0f));
  const Matrix d(16, 16, 16, false, kFull, 3), half(16, 16, 16, false, kHalf, 4);
  const Case plain = {false, false, false, false, kFull, kFull, 1, 0};
  cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F);
  ASSERT_EQ(choose(a, b, d, d, kWorkspace), 3);
  multiply(plain, a, b, d, d, 0);
  EXPECT_EQ(d.result()[0], 16);
  EXPECT_EQ(choose(half, half, d, d, kWorkspace), 0);
  EXPECT_EQ(status, CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_F(Products, WhatDoesNotFitIsRefused) {
  const Matrix a(kM, kK, 24, false, kHalf, 1), b(kK, kN, 40, false, kHalf, 2), d(kM, kN, 24, false, kHalf, 3);
  const Matrix narrow(kM, kN, kM - 1, false, kHalf, 4), other(kM, kN + 1, 24, false, kHalf, 5);
  const Case plain = {false, false, false, false, kHalf, kHalf, 1, 0};
  describe(plain, nullptr);
  EXPECT_EQ(choose(a, b, d, other, kWorkspace), 0);
  EXPECT_EQ(status, CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(choose(a, b, narrow, narrow, kWorkspace), 0);
  EXPECT_EQ(choose(a, b, d, d, 0), 0);  // each uses some workspace
  EXPECT_EQ(status, CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(choose(a, b, d, d, 1024), 2);  // none that splits k
  ASSERT_EQ(choose(a, b, d, d, kWorkspace), 3);
  const float one = 1, zero = 0;
  EXPECT_EQ(cublasLtMatmul(nullptr, operation, &one, a.memory, a.layout, b.memory, b.layout, &zero, d.memory, d.layout,
                           d.memory, d.layout, &found[0].algo, workspace, 16, stream.handle),
            CUBLAS_STATUS_INVALID_VALUE);
}

TEST_F(Products, OperandsMustBeAlignedAsPromised) {
  const Matrix a(kM, kK, 24, false, kHalf, 1), b(kK, kN, 40, false, kHalf, 2), d(kM, kN, 24, false, kHalf, 3);
  const Case plain = {false, false, false, false, kHalf, kHalf, 1, 0};
  describe(plain, nullptr);
  ASSERT_EQ(choose(a, b, d, d, kWorkspace), 3);
  const float one = 1, zero = 0;
  EXPECT_REPORT(cublasLtMatmul(nullptr, operation, &one, a.memory + 16, a.layout, b.memory, b.layout, &zero, d.memory,
                               d.layout, d.memory, d.layout, &found[0].algo, workspace, kWorkspace, stream.handle),
                "product .*: A is not aligned to the 256 bytes");
}

TEST_F(Products, OverlapsAreFound) {
  const Matrix a(kM, kM, 24, false, kHalf, 1), b(kM, kM, 24, false, kHalf, 2), d(kM, kM, 24, false, kHalf, 3);
  const Case plain = {false, false, false, false, kHalf, kHalf, 1, 0},
             adds = {false, false, false, false, kHalf, kHalf, 1, 1};
  describe(plain, a.memory, CUDA_R_16BF);
  ASSERT_EQ(choose(a, b, d, d, kWorkspace), 3);
  EXPECT_REPORT(multiply(plain, a, b, a, a, 0), "product .*: D meets A");
  EXPECT_REPORT(multiply(plain, a, b, d, b, 0), "product .*: D meets B");
  set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(d.memory + d.bytes() - 2 * 4 - 2));
  EXPECT_REPORT(multiply(plain, a, b, d, d, 0), "product .*: D meets the bias");
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT);
  EXPECT_EQ(multiply(adds, a, b, d, d, 0), CUBLAS_STATUS_SUCCESS);
  const auto call = [&](const void* c, void* result, void* scratch) {
    return cublasLtMatmul(nullptr, operation, &adds.alpha, a.memory, a.layout, b.memory, b.layout, &adds.beta, c,
                          d.layout, result, d.layout, &found[0].algo, scratch, kWorkspace, stream.handle);
  };
  Memory<unsigned char> larger(3 * d.bytes() + 2 * kWorkspace);
  EXPECT_REPORT(call(larger, larger + 512, workspace), "product .*: D meets C without being equal to it");
  EXPECT_REPORT(call(d.memory, d.memory, a.memory), "product .*: the workspace meets A");
  EXPECT_REPORT(call(d.memory, larger, larger), "product .*: the workspace meets D");
  // Columns of one buffer that alternate.
  cublasLtMatrixLayoutSetAttribute(d.layout, CUBLASLT_MATRIX_LAYOUT_LD, std::data({std::int64_t{2 * 256}}), 8);
  Memory<unsigned char> alternating(kM * 2 * 512);
  EXPECT_EQ(call(alternating, alternating + 512, workspace), CUBLAS_STATUS_SUCCESS);
}

TEST_F(Products, RaceWithOtherStreams) {
  const Matrix a(kM, kK, 24, false, kHalf, 1), b(kK, kN, 40, false, kHalf, 2), d(kM, kN, 24, false, kHalf, 3);
  const Case plain = {false, false, false, false, kHalf, kHalf, 1, 0};
  describe(plain, nullptr);
  ASSERT_EQ(choose(a, b, d, d, kWorkspace), 3);
  cudaDeviceSynchronize();
  TestStream other;
  EXPECT_REPORT(
      {
        cudaMemsetAsync(b.memory, 0, b.bytes(), other.handle);
        multiply(plain, a, b, d, d, 0);
        cudaDeviceSynchronize();
      },
      "race: (product \\[20, 13, 37\\] bf16 -> bf16 .*; memset .* wrote them|memset .*; product .* read them)");
}

}  // namespace
}  // namespace llmc
