// audit_loss: losses = -log softmax(logits)[target] of fp32 logits, in double. A target of -1 has no loss.
#include "device/group.h"
#include "params.h"

namespace llmc {

/// logits [kRows, kCols]; targets, losses [kRows], 0 without a target.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL audit_loss(const float* __restrict__ logits, const int* __restrict__ targets, float* __restrict__ losses) {
  const Group<kLanes> lanes;
  for (const int row : lanes.rows(kRows)) {
    const auto in = lanes.row<kCols, kPitch>(logits, row);
    const bool ignored = targets[row] < 0;
    const double highest = lanes.largest(in, [](float v) { return v; });
    const double total = lanes.sum<double>(in, [=](float v) { return exp(static_cast<double>(v) - highest); });
    const double below = in.data[ignored ? 0 : targets[row]] - highest;
    if (lanes.leads()) losses[row] = ignored ? 0.0f : static_cast<float>(log(total) - below);
  }
}

}  // namespace llmc
