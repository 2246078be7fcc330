// cross_entropy_capped: cross_entropy of logits v' = kSoftcap * tanh(v / kSoftcap): losses = -log softmax(v')[target];
// kGradient: logits become (softmax(v') * slope - onehot(target)) * (1 - (v' / kSoftcap)^2) * loss_scale, where slope
// is 1 and the z-loss's part. A target of -1 has no loss and no gradient. fp32 maths for any dtype of logits. Also
// writes what cross_entropy does.
#include "device/group.h"
#include "params.h"

namespace llmc {

/// logits [kRows, kCols]; targets, losses, lse, entropies, correct [kRows]. Without a target 0, and lse -infinity.
LLMC_BOUNDS_RESIDENT(kLanes, 1024)
LLMC_KERNEL cross_entropy_capped(Act* __restrict__ logits, const int* __restrict__ targets, float* __restrict__ losses,
                                 float* __restrict__ lse, float* __restrict__ entropies, float* __restrict__ correct,
                                 const StepScalars* __restrict__ scalars LLMC_FURTHER_OPERANDS) {
  const Group<kLanes, Act, kCluster> lanes;
  [[maybe_unused]] float loss_scale = scalars->loss_scale;
  if constexpr (kLossScaled) loss_scale *= dynamic_scale->factor;
  for (const int row : lanes.rows(kRows)) {
    // Read where it is used: a lane has no registers for a row beside the arithmetic of its cap.
    const auto out = lanes.row<kCols, kPitch>(logits, row);
    const auto in = lanes.row<kCols, kPitch>(static_cast<const Act*>(logits), row);
    const bool ignored = targets[row] < 0;
    const int target = ignored ? 0 : targets[row];
    // The lane that writes the target's column also reads it, before the other columns change.
    const bool owner = lanes.owns(target);
    float logit = 0.0f;
    if (owner) logit = soft_cap(to_float(out.data[target]), kSoftcap);
    const auto capped = lanes.capped(in, kSoftcap);
    const auto powers = lanes.softmax(capped);
    const float log_total = log(powers.total);
    if constexpr (kGradient) {
      // The gradient of the z-loss kZLoss * lse^2 is 2 * kZLoss * lse * softmax.
      const float slope = 1.0f + 2.0f * kZLoss * (log_total + powers.highest),
                  scale = loss_scale * slope / powers.total;
      lanes.store(out, powers, capped,
                  [=](float power, float v) { return ignored ? 0.0f : power * scale * soft_cap_slope(v, kSoftcap); });
      if (owner && !ignored)
        out.data[target] = from_float<Act>((exp(logit - powers.highest) / powers.total * slope - 1.0f) *
                                           soft_cap_slope(logit, kSoftcap) * loss_scale);
    }
    if (owner) {
      losses[row] = ignored ? 0.0f : log_total - (logit - powers.highest);
      lse[row] = ignored ? -__builtin_huge_valf() : log_total + powers.highest;
      entropies[row] = ignored ? 0.0f : log_total - powers.weighted / powers.total;
      correct[row] = !ignored && logit >= powers.highest ? 1.0f : 0.0f;
    }
  }
}

}  // namespace llmc
