// loss_sum: results->loss (=|+=) loss_scale * the sum of the losses, in double and in a fixed order.
#include "device/group.h"
#include "params.h"

namespace llmc {

/// losses [kRows]; accumulate: add to what is there.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL loss_sum(const float* __restrict__ losses, const StepScalars* __restrict__ scalars,
                     StepResults* __restrict__ results, int accumulate) {
  const Group<kLanes> lanes;
  if (!lanes.alone()) return;
  const double sum = lanes.sum<double>(lanes.row<kRows>(losses), [](float v) { return v; }) * scalars->loss_scale;
  if (lanes.leads()) results->loss = accumulate ? results->loss + sum : sum;
}

}  // namespace llmc
