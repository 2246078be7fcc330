// cast_weights: copy = master, rounded to Act.
#include "device/group.h"
#include "params.h"

namespace llmc {

/// Flat parameter buffers, or (kWeightShare) this rank's shards of them; chunks [begin, end).
LLMC_BOUNDS(kLanes)
LLMC_KERNEL cast_weights(const float* __restrict__ master, Act* __restrict__ copy, const Chunk* __restrict__ chunks,
                         int begin, int end) {
  const Group<kLanes> lanes;
  for (const int i : lanes.rows(end - begin)) {
    const Chunk chunk = chunks[begin + i];
    const long long at = kWeightShare ? chunk.state : chunk.offset;
    lanes.store(lanes.run(copy + at, chunk.length), lanes.run(master + at, chunk.length), [](float v) { return v; });
  }
}

}  // namespace llmc
