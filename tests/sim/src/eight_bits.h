// Rules of cuBLASLt for products of 8-bit numbers and for scales, by compute capability.
#pragma once

#include "product.h"

namespace sim {

/// Scales belong to matrices of 8 bits. Those of rows need both modes, both vectors, capability
/// 9.0 and version 12.9.
cublasStatus_t check_scales(const cublasLtMatmulDescOpaque& operation, const cublasLtMatrixLayoutOpaque& a,
                            const cublasLtMatrixLayoutOpaque& b, const cublasLtMatrixLayoutOpaque& c,
                            const cublasLtMatrixLayoutOpaque& d);

/// Of op(A) op(B) with 8 bits each: types, transposition, and multiples of 16 bytes.
cublasStatus_t check_8_bits(const cublasLtMatmulDescOpaque& operation, const cublasLtMatrixLayoutOpaque& a,
                            const cublasLtMatrixLayoutOpaque& b, const cublasLtMatrixLayoutOpaque& d);

}  // namespace sim
