// lion_split: Lion (lion.cu) on masters that are split into bf16 copies and their rest (device/split.h), with the same
// bits as on fp32 masters.
#include "device/group.h"
#include "params.h"

namespace llmc {

/// Flat parameter buffers: this rank's shard of momentum, of gradient (kGradientShare), and of copy, rest and ties
/// (kWeightShare); chunks [begin, end); scalars and groups, one for each group of parameters. kNorms: weight_partial,
/// update_partial = sums of squares of a chunk's new weights and of their change.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL lion_split(bf16* __restrict__ copy, rest16* __restrict__ rest, ties8* __restrict__ ties,
                       const float* __restrict__ gradient, float* __restrict__ momentum,
                       const Chunk* __restrict__ chunks, int begin, int end, const LionScalars* __restrict__ scalars,
                       const GroupScalars* __restrict__ groups, const StepResults* __restrict__ results,
                       float* __restrict__ weight_partial, float* __restrict__ update_partial) {
  if (results->skipped) return;
  const Group<kLanes, bf16> lanes;
  const float clip = results->clip_scale;
  for (const int i : lanes.rows(end - begin)) {
    const Chunk chunk = chunks[begin + i];
    if (!(kGroups >> chunk.group & 1)) continue;
    const GroupScalars group = groups[chunk.group];
    const float beta1 = scalars[chunk.group].beta1, beta2 = scalars[chunk.group].beta2;
    const float rate = group.lr, keep = 1.0f - group.lr * group.weight_decay;
    const auto step = [=](float& p, float slope, float& m) {
      const float d = slope * clip, direction = fma(beta1, m - d, d), before = p;
      m = fma(beta2, m - d, d);
      p = fma(p, keep, direction > 0.0f ? -rate : direction < 0.0f ? rate : 0.0f);
      return p - before;
    };
    const auto p = lanes.split(copy, rest, ties, kWeightShare ? chunk.state : chunk.offset, chunk.length);
    const auto d = lanes.run(gradient + (kGradientShare ? chunk.state : chunk.offset), chunk.length);
    const auto m = lanes.run(momentum + chunk.state, chunk.length);
    if constexpr (kNorms) {
      auto weights = lanes.sums(), updates = lanes.sums();
      lanes.map(p, d, m, weights, updates, [=](float& p, float slope, float& m, float& weight, float& update) {
        const float change = step(p, slope, m);
        weight = fma(p, p, weight);
        update = fma(change, change, update);
      });
      const float weight = lanes.total(weights), update = lanes.total(updates);
      if (lanes.leads()) {
        weight_partial[begin + i] = weight;
        update_partial[begin + i] = update;
      }
    } else {
      lanes.map(p, d, m, step);
    }
  }
}

}  // namespace llmc
