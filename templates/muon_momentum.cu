// muon_momentum: the momentum of Muon (Jordan et al. 2024), with g = gradient * clip_scale; a skipped step changes
// nothing.
//   m = mu m + (1 - mu) g, gradient = mu m + (1 - mu) g, Nesterov's direction
#include "device/group.h"
#include "params.h"

namespace llmc {

/// Flat parameter buffers: gradient, with kGradientShare this rank's shard; this rank's shard of momentum; chunks
/// [begin, end); scalars, one for each group of parameters.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL muon_momentum(float* __restrict__ gradient, float* __restrict__ momentum, const Chunk* __restrict__ chunks,
                          int begin, int end, const MuonScalars* __restrict__ scalars,
                          const StepResults* __restrict__ results) {
  if (results->skipped) return;
  const Group<kLanes> lanes;
  const float clip = results->clip_scale;
  for (const int i : lanes.rows(end - begin)) {
    const Chunk chunk = chunks[begin + i];
    if constexpr (kGroups != -1) {
      if (!(kGroups >> chunk.group & 1)) continue;
    }
    const MuonScalars& own = scalars[chunk.group];
    const bool unknown = results->updates - own.updates > 1;  // to the host: the update before this one
    const float mu = own.momentum[unknown];
    const auto g = lanes.run(gradient + (kGradientShare ? chunk.state : chunk.offset), chunk.length);
    const auto m = lanes.run(momentum + chunk.state, chunk.length);
    lanes.map(g, m, [=](float& g, float& m) {
      const float clipped = g * clip;
      m = fma(mu, m - clipped, clipped);
      g = fma(mu, m - clipped, clipped);
    });
  }
}

}  // namespace llmc
