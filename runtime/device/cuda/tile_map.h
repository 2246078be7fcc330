// Describes a tensor in global memory whose tiles hardware copies to shared memory (device/cuda/ptx.h). Simulated
// devices have their own file of this name (tests/sim).
#pragma once

#include "device/types.h"

namespace llmc {

/// Argument of a kernel, declared as `const __grid_constant__ TileMap name`. Its content is the driver's CUtensorMap.
struct alignas(128) TileMap {
  unsigned long long words[16];
};

/// Heads in packed rows of bf16: `sequences` of `tokens` rows, kept `pitch` elements apart, with `heads` of `width`
/// elements one after the other. A box has 64 columns of one head in `rows` rows: as part of a tile of
/// device/cuda/warpgroup.h, with zeros for columns past the head and tokens past the sequence. `width` and `pitch` are
/// multiples of 8, `rows` of 8 up to 64. `pitch` need be no multiple of `width`: the driver checks multiples of 16
/// bytes. Throws Failure if the driver has no such maps.
TileMap map_of_heads(const bf16* data, int sequences, int tokens, int heads, int width, int pitch, int rows);

}  // namespace llmc
