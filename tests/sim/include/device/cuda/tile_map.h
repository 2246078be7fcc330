// Simulated counterpart of runtime/device/cuda/tile_map.h, found before it. A map is aligned as numbers are: the
// simulator passes it to kernels by value.
#pragma once

#include "device/types.h"

namespace llmc {

struct TileMap {
  unsigned long long words[16];
};

TileMap map_of_heads(const bf16* data, int sequences, int tokens, int heads, int width, int pitch, int rows);

}  // namespace llmc
