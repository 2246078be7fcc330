// Products of bf16 operands on a processor for which oneDNN has none (below AVX-512): widened to fp32, which is exact,
// and multiplied there, a block at a time. The result is rounded once, as elsewhere.
#pragma once

#include <cstddef>

#include "math/gemm.h"

namespace llmc {

/// Bytes of workspace that widened_product() needs, for a shape of any size.
std::size_t widened_workspace();

/// D of a shape with operands in bf16. `workspace`: widened_workspace() bytes, aligned to 64. Returns false where
/// oneDNN refuses a block.
bool widened_product(const GemmShape& shape, const GemmOperands& operands, int threads, void* workspace);

}  // namespace llmc
