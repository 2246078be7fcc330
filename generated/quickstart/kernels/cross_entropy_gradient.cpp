// cross_entropy_gradient: from template cross_entropy for run quickstart (274398525d62afeedc289c02dc9a8bde).
//
// Act = float, kRows = 2048, kCols = 4096, kPitch = 4096, kGradient = true, kCluster = 1, kLanes = 1
//
// 2048 rows of 4096; moves 67.15 MB, 58.72 MFLOP a launch.

// cross_entropy_gradient: losses = -log softmax(logits)[target]; kGradient: logits become (softmax(logits) -
// onehot(target)) * loss_scale. A target of -1 has no loss and no gradient. fp32 maths for any dtype of logits. Also
// writes each row's log-sum-exp, its entropy log(total) - sum(softmax (v - highest)), and whether no logit is above the
// target's.
#include "device/group.h"

namespace llmc {

using Act = float;

/// logits [kRows, kCols]; targets, losses, lse, entropies, correct [kRows]. Without a target 0, and lse -infinity.
LLMC_BOUNDS_RESIDENT(1, 1024)
LLMC_KERNEL cross_entropy_gradient(Act* __restrict__ logits, const int* __restrict__ targets,
                                   float* __restrict__ losses, float* __restrict__ lse, float* __restrict__ entropies,
                                   float* __restrict__ correct, const StepScalars* __restrict__ scalars) {
  const Group<1, Act, 1> lanes;
  [[maybe_unused]] float loss_scale = scalars->loss_scale;
  for (const int row : lanes.rows(2048)) {
    const auto out = lanes.row<4096, 4096>(logits, row);
    const auto in = lanes.load_ahead<4096, 4096>(logits, row, 2048);
    // No branch: an ignored row costs as much work, but no row waits for its target before it is read.
    const bool ignored = targets[row] < 0;
    const int target = ignored ? 0 : targets[row];
    // The lane that writes the target's column also reads it, before the other columns change.
    const bool owner = lanes.owns(target);
    float logit = 0.0f;
    if (owner) logit = to_float(out.data[target]);
    const auto powers = lanes.softmax(in);
    const float scale = loss_scale / powers.total;
    lanes.store(out, powers, [=](float power) { return ignored ? 0.0f : power * scale; });
    if (owner) {
      const float below = logit - powers.highest;
      const float log_total = log(powers.total);
      losses[row] = ignored ? 0.0f : log_total - below;
      lse[row] = ignored ? -__builtin_huge_valf() : log_total + powers.highest;
      entropies[row] = ignored ? 0.0f : log_total - powers.weighted / powers.total;
      correct[row] = !ignored && logit >= powers.highest ? 1.0f : 0.0f;
      const float probability = exp(below) / powers.total;
      if (!ignored) out.data[target] = from_float<Act>((probability - 1.0f) * loss_scale);
    }
  }
}

}  // namespace llmc
