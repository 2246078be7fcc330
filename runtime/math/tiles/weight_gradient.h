// Weight gradient in AMX tiles: the GEMM with A transposed, operands in bf16 (for which oneDNN has no fast kernel), or
// in fp32 by bf16x3 (operands.h), and fp32 sums. The plan chooses it if target.arch has tiles and the shape fits
// (compiler/ops/linear.cpp).
#pragma once

#include <algorithm>
#include <cstddef>

#include "math/gemm.h"

namespace llmc {

/// Returns whether weight_gradient() can compute this GEMM: its form, and blocks of 32 in all three directions.
constexpr bool is_weight_gradient(const GemmShape& shape) {
  return shape.transpose_a && !shape.transpose_b && (shape.operand == DType::bf16 || shape.operand == DType::f32) &&
         shape.result == DType::f32 && !shape.bias && !shape.residual && shape.m % 32 == 0 && shape.n % 32 == 0 &&
         shape.k % 32 == 0;
}

// Bytes. A copy of fp32, as hi and lo, has as many as the original.
constexpr std::int64_t kGradientDepth = 4096;     // of a column of A and B, copied at a time
constexpr std::int64_t kGradientPanel = 1 << 20;  // of the narrow operand's copy: half a core's L2 cache
constexpr std::int64_t kGradientStrips = 2;       // strips of 32 columns of the wide one

/// Rows of A and B copied at a time.
constexpr std::int64_t gradient_depth(const GemmShape& shape) { return kGradientDepth / bytes_of(shape.operand, 1); }

/// Columns of the narrow operand that a thread copies at once.
constexpr std::int64_t gradient_panel_columns(const GemmShape& shape) {
  return std::min({shape.m, shape.n, kGradientPanel / kGradientDepth});
}

/// Bytes of one thread's copies and sums; a multiple of 64.
constexpr std::size_t weight_gradient_bytes(const GemmShape& shape) {
  return static_cast<std::size_t>(kGradientDepth * (gradient_panel_columns(shape) + 32 * kGradientStrips) +
                                  4 * 32 * kGradientStrips * gradient_panel_columns(shape));
}

/// Computes part `part` of `parts` of D [m, n] = alpha A^T B, or alpha A^T B + beta D; A [k, m] and B [k, n]. `copies`:
/// this thread's, aligned to 64 bytes. Every element is summed in the same order for any `parts`. The process must have
/// called require_tiles() (device/cpu/arch.h).
void weight_gradient(const GemmShape& shape, const void* a, const void* b, void* d, bool accumulate, int part,
                     int parts, void* copies);

}  // namespace llmc
