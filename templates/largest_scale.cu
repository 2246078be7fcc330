// largest_scale: the largest of the scales of a tensor's rows.
#include "device/group.h"
#include "params.h"

namespace llmc {

/// scales [kCols]; shared [1].
LLMC_BOUNDS(kLanes)
LLMC_KERNEL largest_scale(const float* __restrict__ scales, float* __restrict__ shared) {
  const Group<kLanes> lanes;
  if (!lanes.alone()) return;
  const float largest = lanes.largest(lanes.row<kCols>(scales), [](float scale) { return scale; });
  if (lanes.leads()) shared[0] = largest;
}

}  // namespace llmc
