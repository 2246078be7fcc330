// to_wire: gradients as ranks send them to each other, rounded to Act.
#include "device/group.h"
#include "params.h"

namespace llmc {

/// gradients, wire [count].
LLMC_BOUNDS(kLanes)
LLMC_KERNEL to_wire(const float* __restrict__ gradients, Act* __restrict__ wire, long long count) {
  const Group<kLanes> lanes;
  for (const int part : lanes.rows(static_cast<int>((count + kPart - 1) / kPart))) {
    const long long begin = static_cast<long long>(part) * kPart;
    const int length = static_cast<int>(count - begin < kPart ? count - begin : kPart);
    lanes.store(lanes.run(wire + begin, length), lanes.run(gradients + begin, length), [](float v) { return v; });
  }
}

}  // namespace llmc
