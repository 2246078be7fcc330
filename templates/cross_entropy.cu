// cross_entropy: losses = -log softmax(logits)[target]; kGradient: logits become (softmax(logits) - onehot(target)) *
// loss_scale. A target of -1 has no loss and no gradient. fp32 maths, whatever the logits are stored as.
#include "device/group.h"
#include "params.h"

namespace llmc {

/// logits [kRows, kCols], targets [kRows], losses [kRows].
LLMC_BOUNDS(kLanes)
LLMC_KERNEL cross_entropy(Act* __restrict__ logits, const int* __restrict__ targets, float* __restrict__ losses,
                          const StepScalars* __restrict__ scalars) {
  const Group<kLanes, Act, kCluster> g;
  for (const int row : g.rows(kRows)) {
    const auto out = g.row<kCols, kPitch>(logits, row);
    const int target = targets[row];
    if (target < 0) {
      if (g.leads()) losses[row] = 0.0f;
      if constexpr (kGradient) g.map(out, [](float& v) { v = 0.0f; });
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
    if constexpr (kGradient) {
      const float scale = scalars->loss_scale / total;
      g.store(out, powers, [=](float power) { return power * scale; });
      if (g.owns(target)) out.data[target] = from_float<Act>((chance - 1.0f) * scalars->loss_scale);
    }
  }
}

}  // namespace llmc
