// cast_weights: from template cast_weights for run llama-1b (67f153b1f9efd53ce0b214734deeb5f9).
//
// Act = bf16, kWeightShare = false, kLanes = 256
//
// 1241581568 elements in 75809 chunks of at most 16384; moves 7449.49 MB a launch.

// cast_weights: copy = master, rounded to Act.
#include "device/group.h"

namespace llmc {

using Act = bf16;

/// Flat parameter buffers, or (kWeightShare) this rank's shards of them; chunks [begin, end).
LLMC_BOUNDS(256)
LLMC_KERNEL cast_weights(const float* __restrict__ master, Act* __restrict__ copy, const Chunk* __restrict__ chunks,
                         int begin, int end) {
  const Group<256> lanes;
  for (const int i : lanes.rows(end - begin)) {
    const Chunk chunk = chunks[begin + i];
    const long long at = false ? chunk.state : chunk.offset;
    lanes.store(lanes.run(copy + at, chunk.length), lanes.run(master + at, chunk.length), [](float v) { return v; });
  }
}

}  // namespace llmc
