// loss_sum: results->loss (=|+=) loss_scale * the sum of the losses, in double and in a fixed order. Passes on what the
// outside asks of this rank.
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
  if (!lanes.leads()) return;
  results->loss = accumulate ? results->loss + sum : sum;
  results->requests = scalars->requests;
}

}  // namespace llmc
