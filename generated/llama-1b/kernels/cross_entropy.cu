// cross_entropy: from template cross_entropy for run llama-1b (aaf5677d8652fd38f729fcaf140f8b13).
//
// Act = bf16, kRows = 8192, kCols = 131072, kPitch = 131072, kGradient = false, kCluster = 8, kLanes = 512
//
// 8192 rows of 131072; moves 2147.48 MB, 5368.71 MFLOP a launch.

// cross_entropy: losses = -log softmax(logits)[target]; kGradient: logits become (softmax(logits) - onehot(target)) *
// loss_scale. A target of -1 has no loss and no gradient. fp32 maths, whatever the logits are stored as.
#include "device/group.h"

namespace llmc {

using Act = bf16;

/// logits [kRows, kCols], targets [kRows], losses [kRows].
LLMC_BOUNDS(512)
LLMC_KERNEL cross_entropy(Act* __restrict__ logits, const int* __restrict__ targets, float* __restrict__ losses,
                          const StepScalars* __restrict__ scalars) {
  const Group<512, Act, 8> g;
  for (const int row : g.rows(8192)) {
    const auto out = g.row<131072, 131072>(logits, row);
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
