// Which kernels attention and the CPU's products have.
#pragma once

#include <cstdint>

#include "spec/spec.h"

namespace llmc::ops {

/// Whether the CPU has AMX's tiles by its arch. "native" has none before a compilation makes it this machine's name.
bool has_tiles(const spec::Spec& spec);

/// Whether a product of these operands may run in tiles: where they are, bf16 always and fp32 by precision.matmul.
bool products_in_tiles(const spec::Spec& spec, DType operand);

/// Whether attention on the CPU runs in tiles: where they are, and in bf16.
bool attention_in_tiles(const spec::Spec& spec);

/// Whether llmc's own attention on CUDA is by products of warpgroups: heads of 64, compiled for sm_90a alone.
bool attention_in_warpgroups(const spec::Spec& spec, std::int64_t head_dim);

}  // namespace llmc::ops
