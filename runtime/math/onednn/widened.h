// GEMMs with bf16 operands on processors without one in oneDNN (below AVX-512): operands are widened to fp32, which is
// exact, and multiplied there, block by block. The result is rounded once, as elsewhere. Blocks have no padding, so
// fp32 products of one row or column are computed here too where oneDNN ignores pitches.
#pragma once

#include <cstddef>

#include "math/gemm.h"

namespace llmc {

/// Bytes of workspace that widened_product() needs, for a shape of any size.
std::size_t widened_workspace();

/// Computes D of a shape with operands in bf16 or fp32. `workspace`: widened_workspace() bytes, aligned to 64. Returns
/// false if oneDNN refuses a block.
bool widened_product(const GemmShape& shape, const GemmOperands& operands, int threads, void* workspace);

}  // namespace llmc
