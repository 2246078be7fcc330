// cast_weights: copy = master, rounded to Act.
#include "device/group.h"
#include "params.h"

namespace llmc {

/// Flat parameter buffers; chunks [begin, end).
LLMC_BOUNDS(kLanes)
LLMC_KERNEL cast_weights(const float* __restrict__ master, Act* __restrict__ copy, const Chunk* __restrict__ chunks,
                         int begin, int end) {
  const Group<kLanes> lanes;
  for (const int i : lanes.rows(end - begin)) {
    const Chunk chunk = chunks[begin + i];
    lanes.store(lanes.run(copy + chunk.offset, chunk.length), lanes.run(master + chunk.offset, chunk.length),
                [](float v) { return v; });
  }
}

}  // namespace llmc
