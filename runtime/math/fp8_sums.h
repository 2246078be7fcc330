// Errors of sums in fp8 tensor cores.
#pragma once

#include "math/gemm_shape.h"

namespace llmc {

/// Part of a product's largest results that fast accumulation may leave out of any, in addition to kFp8Accumulation. A
/// tensor core cuts its sum to some 14 bits at each addition of 32 terms: by up to 2^-13 of it, on average half.
inline double cut_by_fast_accumulation(const GemmShape& shape) {
  return shape.fast_accumulation ? 0x1p-14 / 32 * static_cast<double>(shape.k) : 0;
}

}  // namespace llmc
