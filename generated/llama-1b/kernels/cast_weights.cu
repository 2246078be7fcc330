// cast_weights: from template cast_weights for run llama-1b (83c3f3dbf15a0b7ad9c9d48ee87ab182).
//
// Act = bf16, kLanes = 256
//
// 1241581568 elements in 75809 chunks of at most 16384; moves 7449.49 MB a launch.

// cast_weights: copy = master, rounded to Act.
#include "device/group.h"

namespace llmc {

using Act = bf16;

/// Flat parameter buffers; chunks [begin, end).
LLMC_BOUNDS(256)
LLMC_KERNEL cast_weights(const float* __restrict__ master, Act* __restrict__ copy, const Chunk* __restrict__ chunks,
                         int begin, int end) {
  const Group<256> lanes;
  for (const int i : lanes.rows(end - begin)) {
    const Chunk chunk = chunks[begin + i];
    lanes.store(lanes.run(copy + chunk.offset, chunk.length), lanes.run(master + chunk.offset, chunk.length),
                [](float v) { return v; });
  }
}

}  // namespace llmc
