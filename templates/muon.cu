// muon: the update of Muon (Jordan et al. 2024) by an orthogonalised direction that stands in place of the gradient; a
// skipped step changes nothing.
//   p -= lr * weight_decay * p, p -= lr * direction
#include "device/group.h"
#include "params.h"

namespace llmc {

/// Flat parameter buffers: this rank's shard of direction (kGradientShare), and of the masters (kWeightShare); chunks
/// [begin, end); scalars and groups, one for each group of parameters. Masters are master, or (kSplit) copy, rest and
/// ties. With scalars->cautious a weight decays only if its direction has its sign, or is 0. kCopy: copy = the new
/// weights in Act. kNorms: weight_partial, update_partial = sums of squares of a chunk's new weights and of their
/// change.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL muon(float* __restrict__ master, rest16* __restrict__ rest, ties8* __restrict__ ties,
                 const float* __restrict__ direction, Act* __restrict__ copy, const Chunk* __restrict__ chunks,
                 int begin, int end, const MuonScalars* __restrict__ scalars, const GroupScalars* __restrict__ groups,
                 const StepResults* __restrict__ results, float* __restrict__ weight_partial,
                 float* __restrict__ update_partial) {
  if (results->skipped) return;
  const Group<kLanes, bf16> lanes;
  for (const int i : lanes.rows(end - begin)) {
    const Chunk chunk = chunks[begin + i];
    if constexpr (kGroups != -1) {
      if (!(kGroups >> chunk.group & 1)) continue;
    }
    const GroupScalars group = groups[chunk.group];
    const float rate = group.lr, keep = 1.0f - group.lr * group.weight_decay;
    const bool cautious = scalars[chunk.group].cautious;
    const long long weights_at = kWeightShare ? chunk.state : chunk.offset;
    const auto p = lanes.masters<kSplit, 0>(master, copy, rest, ties, weights_at, chunk.length);
    const auto d = lanes.run(direction + (kGradientShare ? chunk.state : chunk.offset), chunk.length);
    auto rounded = lanes.run_if < kCopy && !kSplit > (copy + weights_at, chunk.length);
    auto weights = lanes.sums(), updates = lanes.sums();
    lanes.map(p, d, rounded, weights, updates, [=](float& p, float d, float& rounded, float& weight, float& update) {
      const float before = p;
      p = fma(-rate, d, cautious && d * p < 0.0f ? p : p * keep);
      rounded = p;
      if constexpr (kNorms) {
        weight = fma(p, p, weight);
        update = fma(p - before, p - before, update);
      }
    });
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
