// split_masters: masters from fp32 numbers that the host or init_normal has written.
#include "device/group.h"
#include "params.h"

namespace llmc {

/// Flat parameter buffers: this rank's shard of master, copy, rest and ties (kWeightShare), and of whole
/// (kGradientShare); chunks [begin, end). Chunks of groups outside kGroups have masters of their own, and a copy.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL split_masters(const float* __restrict__ whole, float* __restrict__ master, bf16* __restrict__ copy,
                          rest16* __restrict__ rest, ties8* __restrict__ ties, const Chunk* __restrict__ chunks,
                          int begin, int end) {
  const Group<kLanes, bf16> lanes;
  for (const int i : lanes.rows(end - begin)) {
    const Chunk chunk = chunks[begin + i];
    const long long at = kWeightShare ? chunk.state : chunk.offset;
    const auto in = lanes.run(whole + (kGradientShare ? chunk.state : chunk.offset), chunk.length);
    if (kGroups >> chunk.group & 1) {
      lanes.store(lanes.split(copy, rest, ties, at, chunk.length), in, [](float v) { return v; });
    } else {
      lanes.store(lanes.run(master + at, chunk.length), in, [](float v) { return v; });
      lanes.store(lanes.run(copy + at, chunk.length), in, [](float v) { return v; });
    }
  }
}

}  // namespace llmc
