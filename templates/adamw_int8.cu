// adamw_int8: AdamW (adamw.cu) with moments in 8 bits: codes of the dynamic map, and for each block of kStateBlock the
// largest magnitude as their scale. The update takes the moments before they are rounded. A skipped step changes
// nothing.
#include "device/dynamic_map.h"
#include "device/group.h"
#include "params.h"

namespace llmc {

/// Flat parameter buffers: this rank's shard of exp_avg and exp_avg_sq and of their scales, of gradient
/// (kGradientShare), and of the masters (kWeightShare); chunks [begin, end), which begin with a block; scalars and
/// groups, one for each group of parameters. Masters are master, or (kSplit) copy, rest and ties. kCopy: copy = the new
/// weights in Act. kNorms: weight_partial, update_partial = sums of squares of a chunk's new weights and of their
/// change.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL adamw_int8(float* __restrict__ master, rest16* __restrict__ rest, ties8* __restrict__ ties,
                       const float* __restrict__ gradient, dynamic8* __restrict__ exp_avg,
                       float* __restrict__ exp_avg_scale, udynamic8* __restrict__ exp_avg_sq,
                       float* __restrict__ exp_avg_sq_scale, Act* __restrict__ copy, const Chunk* __restrict__ chunks,
                       int begin, int end, const AdamwScalars* __restrict__ scalars,
                       const GroupScalars* __restrict__ groups, const StepResults* __restrict__ results,
                       float* __restrict__ weight_partial, float* __restrict__ update_partial) {
  if (results->skipped) return;
  const Group<kLanes, bf16> lanes;
  const float clip = results->clip_scale;
  for (const int i : lanes.rows(end - begin)) {
    const Chunk chunk = chunks[begin + i];
    if constexpr (kGroups != -1) {
      if (!(kGroups >> chunk.group & 1)) continue;
    }
    const GroupScalars group = groups[chunk.group];
    const AdamwScalars& own = scalars[chunk.group];
    const float beta1 = own.beta1, beta2 = own.beta2, eps = own.eps;
    const bool unknown = results->updates - own.updates > 1;  // to the host: the update before this one
    const float correction1 = own.bias_correction1[unknown], root = 1.0f / sqrt(own.bias_correction2[unknown]);
    const float rate = group.lr / correction1, keep = 1.0f - group.lr * group.weight_decay;
    const long long weights_at = kWeightShare ? chunk.state : chunk.offset;
    const long long gradient_at = kGradientShare ? chunk.state : chunk.offset;
    auto weights = lanes.sums(), updates = lanes.sums();
    for (int at = 0; at < chunk.length; at += kStateBlock) {
      const int count = chunk.length - at < kStateBlock ? chunk.length - at : kStateBlock;
      const long long state = chunk.state + at, block = state / kStateBlock;
      const float first_scale = exp_avg_scale[block], second_scale = exp_avg_sq_scale[block];
      const auto p = lanes.masters<kSplit, kStateBlock>(master, copy, rest, ties, weights_at + at, count);
      const auto d = lanes.block<kStateBlock>(gradient + gradient_at + at, count);
      const auto first = lanes.block<kStateBlock>(exp_avg + state, count);
      const auto second = lanes.block<kStateBlock>(exp_avg_sq + state, count);
      auto rounded = lanes.block_if < kCopy && !kSplit, kStateBlock > (copy + weights_at + at, count);
      auto m = lanes.columns<kStateBlock>(), v = lanes.columns<kStateBlock>();
      lanes.map(p, d, first.read_only(), second.read_only(), rounded, m, v, weights, updates,
                [=](float& p, float slope, float first, float second, float& rounded, float& m, float& v, float& weight,
                    float& update) {
                  const float d = slope * clip, old_m = first * first_scale, old_v = second * second_scale;
                  m = fma(beta1, old_m - d, d);
                  v = fma(beta2, old_v - d * d, d * d);
                  const float before = p;
                  p = fma(-rate, m / fma(sqrt(v), root, eps), p * keep);
                  rounded = p;
                  if constexpr (kNorms) {
                    weight = fma(p, p, weight);
                    update = fma(p - before, p - before, update);
                  }
                });
      const BlockScale of_first(lanes.largest(m, [](float m) { return magnitude(m); }));
      const BlockScale of_second(lanes.largest(v, [](float v) { return v; }));
      lanes.store(first, m, [=](float m) { return of_first.signed_part(m); });
      lanes.store(second, v, [=](float v) { return of_second.unsigned_part(v); });
      lanes.synchronise();  // every lane has read the old scales
      if (lanes.leads()) {
        exp_avg_scale[block] = of_first.scale;
        exp_avg_sq_scale[block] = of_second.scale;
      }
    }
    if constexpr (kNorms) {
      const float weight = lanes.total(weights), update = lanes.total(updates);
      if (lanes.leads()) {
        weight_partial[begin + i] = weight;
        update_partial[begin + i] = update;
      }
    }
  }
}

}  // namespace llmc
