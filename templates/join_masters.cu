// join_masters: whole = the fp32 masters, for the host to read.
#include "device/group.h"
#include "params.h"

namespace llmc {

/// Flat parameter buffers: this rank's shard of master, copy, rest and ties (kWeightShare), and of whole
/// (kGradientShare); chunks [begin, end). Chunks of groups outside kGroups have masters of their own.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL join_masters(const float* __restrict__ master, const bf16* __restrict__ copy,
                         const rest16* __restrict__ rest, const ties8* __restrict__ ties, float* __restrict__ whole,
                         const Chunk* __restrict__ chunks, int begin, int end) {
  const Group<kLanes, bf16> lanes;
  for (const int i : lanes.rows(end - begin)) {
    const Chunk chunk = chunks[begin + i];
    const long long at = kWeightShare ? chunk.state : chunk.offset;
    const auto out = lanes.run(whole + (kGradientShare ? chunk.state : chunk.offset), chunk.length);
    if (kGroups >> chunk.group & 1)
      lanes.store(out, lanes.split(copy, rest, ties, at, chunk.length), [](float v) { return v; });
    else
      lanes.store(out, lanes.run(master + at, chunk.length), [](float v) { return v; });
  }
}

}  // namespace llmc
