// A weight's gradient in AMX tiles: the product with A transposed, bf16 operands and fp32 sums, for which oneDNN has no
// fast kernel. Gemm takes it where the processor has tiles and the shape fits (math/onednn/gemm.cpp).
#pragma once

#include <cstddef>

#include "math/gemm.h"

namespace llmc {

/// Whether weight_gradient() computes this product: its form, and blocks of 32 in all three directions. Each thread
/// copies all of B for its rows of D, so a D wider than high is left to oneDNN, which was faster there.
constexpr bool is_weight_gradient(const GemmShape& shape) {
  return shape.transpose_a && !shape.transpose_b && shape.operand == DType::bf16 && shape.result == DType::f32 &&
         !shape.bias && !shape.residual && shape.m % 32 == 0 && shape.n % 32 == 0 && shape.k % 32 == 0 &&
         shape.m >= shape.n;
}

constexpr std::int64_t kGradientDepth = 512;  // rows of A and B at a time: their copies stay in a core's cache

/// Bytes of one thread's copies: 32 columns of A, all of B; a multiple of 64.
constexpr std::size_t weight_gradient_bytes(const GemmShape& shape) {
  return static_cast<std::size_t>(2 * kGradientDepth * (32 + shape.n));
}

/// Share `part` of `parts` of D [m, n] = A^T B, or D += A^T B; A [k, m] and B [k, n] in bf16. `copies`: this thread's,
/// aligned to 64 bytes. Every element is summed in the same order whatever `parts` is. The process has asked for tiles
/// (device/cpu/arch.h).
void weight_gradient(const GemmShape& shape, const void* a, const void* b, void* d, bool accumulate, int part,
                     int parts, void* copies);

}  // namespace llmc
