// from_wire: writes sums of gradients received from other ranks, or (add) adds them to those of earlier micro-batches.
#include "device/group.h"
#include "params.h"

namespace llmc {

/// wire, gradients [count].
LLMC_BOUNDS(kLanes)
LLMC_KERNEL from_wire(const Act* __restrict__ wire, float* __restrict__ gradients, long long count, bool add) {
  const Group<kLanes> lanes;
  for (const int part : lanes.rows(static_cast<int>((count + kPart - 1) / kPart))) {
    const long long begin = static_cast<long long>(part) * kPart;
    const int length = static_cast<int>(count - begin < kPart ? count - begin : kPart);
    const auto sums = lanes.run(wire + begin, length);
    const auto kept = lanes.run(gradients + begin, length);
    if (add)
      lanes.map(kept, sums, [](float& gradient, float sum) { gradient += sum; });
    else
      lanes.store(kept, sums, [](float v) { return v; });
  }
}

}  // namespace llmc
