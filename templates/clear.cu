// clear: zeros.
#include "device/group.h"
#include "params.h"

namespace llmc {

/// values [count].
LLMC_BOUNDS(kLanes)
LLMC_KERNEL clear(float* __restrict__ values, long long count) {
  const Group<kLanes> lanes;
  for (const int part : lanes.rows(static_cast<int>((count + kPart - 1) / kPart))) {
    const long long begin = static_cast<long long>(part) * kPart;
    const int length = static_cast<int>(count - begin < kPart ? count - begin : kPart);
    lanes.map(lanes.run(values + begin, length), [](float& v) { v = 0.0f; });
  }
}

}  // namespace llmc
