// z_loss: reports z * mean(log-sum-exp^2) over a step's targets. (=|+=) kZLoss * loss_scale * the sum of squares over
// rows, in double and in a fixed order.
#include "device/group.h"
#include "params.h"

namespace llmc {

/// lse [kRows]: -infinity in a row without a target, which counts 0. report: one number. accumulate: add to it.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL z_loss(const float* __restrict__ lse, const StepScalars* __restrict__ scalars, double* __restrict__ report,
                   int accumulate) {
  const Group<kLanes> lanes;
  if (!lanes.alone()) return;
  const double squares = lanes.sum<double>(
      lanes.row<kRows>(lse), [](float v) { return v == -__builtin_huge_valf() ? 0.0 : static_cast<double>(v) * v; });
  if (!lanes.leads()) return;
  const double mean = kZLoss * squares * scalars->loss_scale;
  *report = accumulate ? *report + mean : mean;
}

}  // namespace llmc
