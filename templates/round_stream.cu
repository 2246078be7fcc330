// round_stream: y = x in another type.
#include "device/group.h"
#include "params.h"

namespace llmc {

/// x, y [kRows, kCols].
LLMC_BOUNDS(kLanes)
LLMC_KERNEL round_stream(const Residual* __restrict__ x, Act* __restrict__ y) {
  const Group<kLanes, Act> lanes;
  for (const int row : lanes.rows(kRows))
    lanes.store(lanes.row<kCols, kPitch>(y, row), lanes.row<kCols, kPitch>(x, row), [](float v) { return v; });
}

}  // namespace llmc
