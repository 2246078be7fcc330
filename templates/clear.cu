// clear: zeros.
#include "device/group.h"
#include "params.h"

namespace llmc {

/// values [count], at a multiple of 16 bytes or, with kAnyAddress, at any.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL clear(float* __restrict__ values, long long count) {
  const Group<kLanes> lanes;
  for (const int part : lanes.rows(static_cast<int>((count + kPart - 1) / kPart))) {
    const long long begin = static_cast<long long>(part) * kPart;
    const int length = static_cast<int>(count - begin < kPart ? count - begin : kPart);
    const auto zero = [](float& v) { v = 0.0f; };
    if constexpr (kAnyAddress) {
      lanes.map(lanes.unaligned(values + begin, length), zero);
    } else {
      lanes.map(lanes.run(values + begin, length), zero);
    }
  }
}

}  // namespace llmc
