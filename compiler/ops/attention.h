// Which kernels the CPU's attention has.
#pragma once

#include "spec/spec.h"

namespace llmc::ops {

/// Whether attention on the CPU runs in AMX's tiles: bf16, and an arch that has them. "native" has none before a
/// compilation makes it this machine's name.
bool attention_in_tiles(const spec::Spec& spec);

}  // namespace llmc::ops
