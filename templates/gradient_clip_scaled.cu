// gradient_clip_scaled: gradient_clip of gradients with a loss scale. The norm is of the gradients without it, and
// clip_scale removes it. A step with a finite loss whose gradients are not finite is skipped as an overflow and halves
// the scale; kGoodSteps steps with finite gradients double it.
#include "device/group.h"
#include "params.h"

namespace llmc {

/// partial [chunks]: sums of squares. Reads results->loss. dynamic_scale: of these gradients, and then of the next
/// step's.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL gradient_clip_scaled(const float* __restrict__ partial, int chunks, const StepScalars* __restrict__ scalars,
                                 StepResults* __restrict__ results, LossScale* __restrict__ dynamic_scale) {
  const Group<kLanes> lanes;
  if (!lanes.alone()) return;
  const double squares = lanes.sum<double>(lanes.run(partial, chunks), [](float v) { return v; });
  if (!lanes.leads()) return;
  const float scale = dynamic_scale->factor, clip = scalars->clip_norm;
  const double norm = sqrt(squares) / scale;
  const bool good = finite(norm), overflow = finite(results->loss) && !good && scale > kLeastLossScale;
  results->grad_norm = static_cast<float>(norm);
  results->clip_scale = (clip > 0.0f && norm > clip ? static_cast<float>(clip / norm) : 1.0f) / scale;
  results->skipped = overflow                                        ? kOverflow
                     : !finite(results->loss) || !good               ? kNotFinite
                     : results->loss > scalars->loss_limit           ? kLossAbove
                     : results->grad_norm > scalars->grad_norm_limit ? kGradNormAbove
                                                                     : kApplied;
  results->updates += results->skipped == kApplied;
  dynamic_scale->last = scale;
  if (overflow) {
    dynamic_scale->factor = scale * 0.5f;
    dynamic_scale->good = 0;
    ++dynamic_scale->overflows;
  } else if (good && ++dynamic_scale->good == kGoodSteps) {
    dynamic_scale->good = 0;
    if (finite(scale * 2.0f)) dynamic_scale->factor = scale * 2.0f;
  }
}

}  // namespace llmc
