// gradient_norm: from template gradient_norm for run llama-1b (67f153b1f9efd53ce0b214734deeb5f9).
//
// kGradientShare = false, kLanes = 256
//
// 1241581568 elements in 75809 chunks of at most 16384; moves 4966.33 MB, 2483.16 MFLOP a launch.

// gradient_norm: the sum of squares of each chunk of the gradients.
#include "device/group.h"

namespace llmc {

/// gradients: a flat parameter buffer, or (kGradientShare) this rank's shard of one; chunks [begin, end); partial: one
/// number per chunk.
LLMC_BOUNDS(256)
LLMC_KERNEL gradient_norm(const float* __restrict__ gradients, const Chunk* __restrict__ chunks,
                          float* __restrict__ partial, int begin, int end) {
  const Group<256> lanes;
  for (const int i : lanes.rows(end - begin)) {
    const Chunk chunk = chunks[begin + i];
    const auto gradient = lanes.run(gradients + (false ? chunk.state : chunk.offset), chunk.length);
    const float squares = lanes.sum(gradient, [](float v) { return v * v; });
    if (lanes.leads()) partial[begin + i] = squares;
  }
}

}  // namespace llmc
