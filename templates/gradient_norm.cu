// gradient_norm: the sum of squares of each chunk of the gradients.
#include "device/group.h"
#include "params.h"

namespace llmc {

/// gradients: a flat parameter buffer, or (kGradientShare) this rank's shard of one; chunks [begin, end); partial: one
/// number per chunk.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL gradient_norm(const float* __restrict__ gradients, const Chunk* __restrict__ chunks,
                          float* __restrict__ partial, int begin, int end) {
  const Group<kLanes> lanes;
  for (const int i : lanes.rows(end - begin)) {
    const Chunk chunk = chunks[begin + i];
    const auto gradient = lanes.run(gradients + (kGradientShare ? chunk.state : chunk.offset), chunk.length);
    const float squares = lanes.sum(gradient, [](float v) { return v * v; });
    if (lanes.leads()) partial[begin + i] = squares;
  }
}

}  // namespace llmc
