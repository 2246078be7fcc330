// The micro-batch's part of the loss: results->loss (= or +=) loss_scale * sum of losses [kRows], in double and in order.
#include "device/group.h"
#include "params.h"

namespace llmc {

LLMC_KERNEL loss_sum(const float* losses, const StepScalars* scalars, StepResults* results, int accumulate) {
  const Group<kLanes> g;
  if (!g.alone()) return;
  const double total = g.sum_of(kRows, [=](int i) { return static_cast<double>(losses[i]); }) * scalars->loss_scale;
  if (g.first()) results->loss = accumulate ? results->loss + total : total;
}

}  // namespace llmc
