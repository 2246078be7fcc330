// Which kernels the CPU's attention and products have.
#pragma once

#include "spec/spec.h"

namespace llmc::ops {

/// Whether the CPU has AMX's tiles by its arch. "native" has none before a compilation makes it this machine's name.
bool has_tiles(const spec::Spec& spec);

/// Whether attention on the CPU runs in tiles: where they are, and in bf16.
bool attention_in_tiles(const spec::Spec& spec);

}  // namespace llmc::ops
