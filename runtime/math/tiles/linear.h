// Forward GEMM and input gradient of a linear layer in AMX tiles: operands in bf16, or in fp32 by bf16x3 (operands.h),
// and fp32 sums. The plan chooses it if target.arch has tiles and the shape fits (compiler/ops/linear.cpp).
#pragma once

#include <algorithm>
#include <cstddef>

#include "math/gemm.h"

namespace llmc {

/// Returns whether linear_product() can compute this GEMM: its form, and blocks of 32 in all three directions.
constexpr bool is_linear_product(const GemmShape& shape) {
  const bool operands =
      shape.operand == DType::bf16 ? shape.pitch_a % 2 == 0 : shape.operand == DType::f32 && shape.result == DType::f32;
  return !shape.transpose_a && !shape.accumulates && operands && shape.m % 32 == 0 && shape.n % 32 == 0 &&
         shape.k % 32 == 0;
}

// Bytes. A copy of fp32, as hi and lo, has as many as the original.
constexpr std::int64_t kLinearDepth = 512;  // of a row at a time: 32 rows of A and 32 columns of B fit into an L1 cache
constexpr std::int64_t kLinearPanel = 1 << 20;   // of a copied panel of B: half an L2 cache
constexpr std::int64_t kLinearStream = 1 << 20;  // of a thread's part of D that exceed the other half

/// Elements of the sum at a time.
constexpr std::int64_t linear_depth(const GemmShape& shape) { return kLinearDepth / bytes_of(shape.operand, 1); }

/// Columns of B that a thread copies at once.
constexpr std::int64_t linear_panel_columns(const GemmShape& shape) {
  return std::min(shape.n, std::max(std::int64_t{32}, kLinearPanel / bytes_of(shape.operand, shape.k) / 32 * 32));
}

/// Bytes of one thread's copy of B, of its sums, and of copied rows of A; a multiple of 64.
constexpr std::size_t linear_product_bytes(const GemmShape& shape) {
  return static_cast<std::size_t>(linear_panel_columns(shape) * (bytes_of(shape.operand, shape.k) + 4 * 32) +
                                  (shape.operand == DType::f32 ? 32 * kLinearDepth : 0));
}

/// Computes part `part` of `parts` of D [m, n] = alpha A B (+ bias) (+ beta C), A [m, k] and B [k, n], or [n, k] if
/// transposed. `workspace`: this thread's, aligned to 64 bytes. Every element is summed in the same order for any
/// `parts`. The process must have called require_tiles() (device/cpu/arch.h).
void linear_product(const GemmShape& shape, const void* a, const void* b, const void* bias, const void* c, void* d,
                    int part, int parts, void* workspace);

}  // namespace llmc
