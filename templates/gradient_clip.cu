// gradient_clip: computes the global gradient norm and the factor that limits it to clip_norm. Skips a step whose
// numbers are not finite or above the step's limits, and counts the others.
#include "device/group.h"
#include "params.h"

namespace llmc {

/// partial [chunks]: sums of squares. Reads results->loss.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL gradient_clip(const float* __restrict__ partial, int chunks, const StepScalars* __restrict__ scalars,
                          StepResults* __restrict__ results) {
  const Group<kLanes> lanes;
  if (!lanes.alone()) return;
  const double norm = sqrt(lanes.sum<double>(lanes.run(partial, chunks), [](float v) { return v; }));
  if (!lanes.leads()) return;
  const float clip = scalars->clip_norm;
  results->grad_norm = static_cast<float>(norm);
  results->clip_scale = clip > 0.0f && norm > clip ? static_cast<float>(clip / norm) : 1.0f;
  results->skipped = !finite(results->loss) || !finite(norm)         ? kNotFinite
                     : results->loss > scalars->loss_limit           ? kLossAbove
                     : results->grad_norm > scalars->grad_norm_limit ? kGradNormAbove
                                                                     : kApplied;
  results->updates += results->skipped == kApplied;
}

}  // namespace llmc
