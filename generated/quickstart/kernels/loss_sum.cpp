// loss_sum: from template loss_sum for run quickstart (274398525d62afeedc289c02dc9a8bde).
//
// kRows = 2048, kLanes = 1
//
// 1 rows of 2048; moves 0.01 MB, 0.00 MFLOP a launch.

// loss_sum: results->loss (=|+=) loss_scale * the sum of the losses, in double and in a fixed order. Passes on what the
// outside asks of this rank.
#include "device/group.h"

namespace llmc {

/// losses [kRows]; accumulate: add to what is there.
LLMC_BOUNDS(1)
LLMC_KERNEL loss_sum(const float* __restrict__ losses, const StepScalars* __restrict__ scalars,
                     StepResults* __restrict__ results, int accumulate) {
  const Group<1> lanes;
  if (!lanes.alone()) return;
  const double sum = lanes.sum<double>(lanes.row<2048>(losses), [](float v) { return v; }) * scalars->loss_scale;
  if (!lanes.leads()) return;
  results->loss = accumulate ? results->loss + sum : sum;
  results->requests = scalars->requests;
}

}  // namespace llmc
