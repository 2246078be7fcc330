// lion: Chen et al. 2023, with g = gradient * clip_scale; a skipped step changes nothing.
//   p -= lr * weight_decay * p, p -= lr * sign(beta1 m + (1 - beta1) g), m = beta2 m + (1 - beta2) g
#include "device/group.h"
#include "params.h"

namespace llmc {

/// Flat parameter buffers: this rank's shard of momentum, of gradient (kGradientShare), and of master and copy
/// (kWeightShare); chunks [begin, end); scalars and groups, one for each group of parameters. kCopy: copy = the new
/// weights in Act. kNorms: weight_partial, update_partial = sums of squares of a chunk's new weights and of their
/// change.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL lion(float* __restrict__ master, const float* __restrict__ gradient, float* __restrict__ momentum,
                 Act* __restrict__ copy, const Chunk* __restrict__ chunks, int begin, int end,
                 const LionScalars* __restrict__ scalars, const GroupScalars* __restrict__ groups,
                 const StepResults* __restrict__ results, float* __restrict__ weight_partial,
                 float* __restrict__ update_partial) {
  if (results->skipped) return;
  const Group<kLanes> lanes;
  const float clip = results->clip_scale;
  for (const int i : lanes.rows(end - begin)) {
    const Chunk chunk = chunks[begin + i];
    if constexpr (kGroups != -1) {
      if (!(kGroups >> chunk.group & 1)) continue;
    }
    const GroupScalars group = groups[chunk.group];
    const float beta1 = scalars[chunk.group].beta1, beta2 = scalars[chunk.group].beta2;
    const float rate = group.lr, keep = 1.0f - group.lr * group.weight_decay;
    const auto step = [=](float& p, float slope, float& m, float& rounded) {
      const float d = slope * clip, direction = fma(beta1, m - d, d), before = p;
      m = fma(beta2, m - d, d);
      p = fma(p, keep, direction > 0.0f ? -rate : direction < 0.0f ? rate : 0.0f);
      rounded = p;
      return p - before;
    };
    const long long weights_at = kWeightShare ? chunk.state : chunk.offset;
    const auto p = lanes.run(master + weights_at, chunk.length);
    const auto d = lanes.run(gradient + (kGradientShare ? chunk.state : chunk.offset), chunk.length);
    const auto m = lanes.run(momentum + chunk.state, chunk.length);
    auto rounded = lanes.run_if<kCopy>(copy + weights_at, chunk.length);
    if constexpr (kNorms) {
      auto weights = lanes.sums(), updates = lanes.sums();
      lanes.map(p, d, m, rounded, weights, updates,
                [=](float& p, float slope, float& m, float& rounded, float& weight, float& update) {
                  const float change = step(p, slope, m, rounded);
                  weight = fma(p, p, weight);
                  update = fma(change, change, update);
                });
      const float weight = lanes.total(weights), update = lanes.total(updates);
      if (lanes.leads()) {
        weight_partial[begin + i] = weight;
        update_partial[begin + i] = update;
      }
    } else {
      lanes.map(p, d, m, rounded, step);
    }
  }
}

}  // namespace llmc
