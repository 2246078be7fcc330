// cross_entropy: from template cross_entropy for run quickstart (76adbe471871107efa6ddc51460bc417).
//
// Act = float, kRows = 2048, kCols = 4096, kPitch = 4096, kGradient = false, kCluster = 1, kLanes = 1
//
// 2048 rows of 4096; moves 33.55 MB, 41.94 MFLOP a launch.

// cross_entropy: losses = -log softmax(logits)[target]; kGradient: logits become (softmax(logits) - onehot(target)) *
// loss_scale. A target of -1 has no loss and no gradient. fp32 maths, whatever the logits are stored as.
#include "device/group.h"

namespace llmc {

using Act = float;

/// logits [kRows, kCols], targets [kRows], losses [kRows].
LLMC_BOUNDS(1)
LLMC_KERNEL cross_entropy(Act* __restrict__ logits, const int* __restrict__ targets, float* __restrict__ losses,
                          const StepScalars* __restrict__ scalars) {
  const Group<1, Act, 1> g;
  for (const int row : g.rows(2048)) {
    const auto out = g.row<4096, 4096>(logits, row);
    const int target = targets[row];
    if (target < 0) {
      if (g.leads()) losses[row] = 0.0f;
      continue;
    }
    const auto in = g.load(out);
    const float highest = g.max(in, [](float v) { return v; });
    auto powers = g.apply(in, [=](float v) { return exp(v - highest); });
    const float total = g.sum(powers, [](float power) { return power; });
    // The lane that writes the target's column also reads it, before and after the other columns change.
    [[maybe_unused]] float chance = 0.0f;
    if (g.owns(target)) {
      const float logit = to_float(out.data[target]) - highest;
      losses[row] = log(total) - logit;
      chance = exp(logit) / total;
    }
  }
}

}  // namespace llmc
