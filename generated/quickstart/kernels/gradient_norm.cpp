// gradient_norm: from template gradient_norm for run quickstart (274398525d62afeedc289c02dc9a8bde).
//
// kGradientShare = false, kLanes = 1
//
// 5770496 elements in 365 chunks of at most 16384; moves 23.08 MB, 11.54 MFLOP a launch.

// gradient_norm: the sum of squares of each chunk of the gradients.
#include "device/group.h"

namespace llmc {

/// gradients: a flat parameter buffer, or (kGradientShare) this rank's shard of one; chunks [begin, end); partial: one
/// number per chunk.
LLMC_BOUNDS(1)
LLMC_KERNEL gradient_norm(const float* __restrict__ gradients, const Chunk* __restrict__ chunks,
                          float* __restrict__ partial, int begin, int end) {
  const Group<1> lanes;
  for (const int i : lanes.rows(end - begin)) {
    const Chunk chunk = chunks[begin + i];
    const auto gradient = lanes.run(gradients + (false ? chunk.state : chunk.offset), chunk.length);
    const float squares = lanes.sum(gradient, [](float v) { return v * v; });
    if (lanes.leads()) partial[begin + i] = squares;
  }
}

}  // namespace llmc
