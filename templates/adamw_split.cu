// adamw_split: AdamW (adamw.cu) on masters that are split into bf16 copies and their rest (device/split.h), with the
// same bits as on fp32 masters.
#include "device/group.h"
#include "params.h"

namespace llmc {

/// Flat parameter buffers: this rank's shard of exp_avg and exp_avg_sq, of gradient (kGradientShare), and of copy, rest
/// and ties (kWeightShare); chunks [begin, end); scalars and groups, one for each group of parameters. kNorms:
/// weight_partial, update_partial = sums of squares of a chunk's new weights and of their change.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL adamw_split(bf16* __restrict__ copy, rest16* __restrict__ rest, ties8* __restrict__ ties,
                        const float* __restrict__ gradient, float* __restrict__ exp_avg, float* __restrict__ exp_avg_sq,
                        const Chunk* __restrict__ chunks, int begin, int end, const AdamwScalars* __restrict__ scalars,
                        const GroupScalars* __restrict__ groups, const StepResults* __restrict__ results,
                        float* __restrict__ weight_partial, float* __restrict__ update_partial) {
  if (results->skipped) return;
  const Group<kLanes, bf16> lanes;
  const float clip = results->clip_scale;
  for (const int i : lanes.rows(end - begin)) {
    const Chunk chunk = chunks[begin + i];
    if (!(kGroups >> chunk.group & 1)) continue;
    const GroupScalars group = groups[chunk.group];
    const AdamwScalars& own = scalars[chunk.group];
    const float beta1 = own.beta1, beta2 = own.beta2, eps = own.eps;
    const bool unknown = results->updates - own.updates > 1;  // to the host: the update before this one
    const float correction1 = own.bias_correction1[unknown], root = 1.0f / sqrt(own.bias_correction2[unknown]);
    const float rate = group.lr / correction1, keep = 1.0f - group.lr * group.weight_decay;
    const auto step = [=](float& p, float slope, float& m, float& v) {
      const float d = slope * clip;
      m = fma(beta1, m - d, d);
      v = fma(beta2, v - d * d, d * d);
      const float before = p;
      p = fma(-rate, m / fma(sqrt(v), root, eps), p * keep);
      return p - before;
    };
    const auto p = lanes.split(copy, rest, ties, kWeightShare ? chunk.state : chunk.offset, chunk.length);
    const auto d = lanes.run(gradient + (kGradientShare ? chunk.state : chunk.offset), chunk.length);
    const auto m = lanes.run(exp_avg + chunk.state, chunk.length);
    const auto v = lanes.run(exp_avg_sq + chunk.state, chunk.length);
    if constexpr (kNorms) {
      auto weights = lanes.sums(), updates = lanes.sums();
      lanes.map(p, d, m, v, weights, updates,
                [=](float& p, float slope, float& m, float& v, float& weight, float& update) {
                  const float change = step(p, slope, m, v);
                  weight = fma(p, p, weight);
                  update = fma(change, change, update);
                });
      const float weight = lanes.total(weights), update = lanes.total(updates);
      if (lanes.leads()) {
        weight_partial[begin + i] = weight;
        update_partial[begin + i] = update;
      }
    } else {
      lanes.map(p, d, m, v, step);
    }
  }
}

}  // namespace llmc
