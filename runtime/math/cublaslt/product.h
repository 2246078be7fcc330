// Converts a GemmShape to cuBLASLt's descriptors.
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "math/cublaslt/library.h"
#include "math/gemm.h"

namespace llmc {

/// Throws Failure with the library's version, the call and its status; Failure(toolchain) if the machine is the cause.
void check(cublasStatus_t status, const char* call);

/// Owns a cuBLASLt descriptor.
template <class Handle, cublasStatus_t (*kDestroy)(Handle)>
class Owned {
 public:
  Owned() = default;
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (handle_) kDestroy(handle_);
  }
  Handle get() const { return handle_; }
  Handle* put() { return &handle_; }

 private:
  Handle handle_ = nullptr;
};

/// Computes D^T = op(B)^T op(A)^T, with exchanged operands: cuBLASLt has fast paths for column-major matrices, and a
/// row-major [rows, cols] matrix is a column-major [cols, rows] one.
class LtProduct {
 public:
  LtProduct(MathLibrary::Impl& library, const GemmShape& shape);

  const GemmShape& shape() const { return shape_; }

  struct Algorithm {
    cublasLtMatmulAlgo_t algorithm;
    std::size_t workspace_bytes;  // required
  };
  /// Returns at most `most` algorithms that need at most `workspace_bytes`, in the order of cuBLASLt's heuristics, best
  /// first. Throws Failure(toolchain) if there is none.
  std::vector<Algorithm> candidates(int most, std::size_t workspace_bytes) const;
  /// Workspace that this algorithm needs for this GEMM, as the library reports it; nothing if it does not support it.
  std::optional<std::size_t> workspace_of(const cublasLtMatmulAlgo_t& algorithm) const;

  /// Same as Gemm's call.
  cublasStatus_t launch(const cublasLtMatmulAlgo_t& algorithm, cudaStream_t stream, const GemmOperands& operands) const;

 private:
  using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
  using Operation = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
  static Layout transposed(const GemmMatrix& matrix);
  void scale_by_rows();
  /// Sets the addresses of the scales: one number for each operand, or with Scaling::rows one for each row.
  void point_to_scales(const void* of_a, const void* of_b) const;

  MathLibrary::Impl* library_;
  GemmShape shape_;
  Operation operation_;
  Layout a_, b_, c_, d_;  // without a residual C is D
};

}  // namespace llmc
