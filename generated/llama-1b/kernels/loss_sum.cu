// loss_sum: from template loss_sum for run llama-1b (67f153b1f9efd53ce0b214734deeb5f9).
//
// kRows = 32768, kLanes = 1024
//
// 1 rows of 32768; moves 0.13 MB, 0.03 MFLOP a launch.

// loss_sum: results->loss (=|+=) loss_scale * the sum of the losses, in double and in a fixed order. Passes on what the
// outside asks of this rank.
#include "device/group.h"

namespace llmc {

/// losses [kRows]; accumulate: add to what is there.
LLMC_BOUNDS(1024)
LLMC_KERNEL loss_sum(const float* __restrict__ losses, const StepScalars* __restrict__ scalars,
                     StepResults* __restrict__ results, int accumulate) {
  const Group<1024> lanes;
  if (!lanes.alone()) return;
  const double sum = lanes.sum<double>(lanes.row<32768>(losses), [](float v) { return v; }) * scalars->loss_scale;
  if (!lanes.leads()) return;
  results->loss = accumulate ? results->loss + sum : sum;
  results->requests = scalars->requests;
}

}  // namespace llmc
