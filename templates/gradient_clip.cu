// Second stage of the gradient's norm, and what the optimizer does with it: the norm, the factor that clips it to
// clip_norm, and whether the step is skipped because the loss or the norm is not finite. partial [chunks].
#include "device/group.h"
#include "params.h"

namespace llmc {

LLMC_KERNEL gradient_clip(const float* partial, int chunks, const StepScalars* scalars, StepResults* results) {
  const Group<kLanes> g;
  if (!g.alone()) return;
  const double total = g.sum_of(chunks, [=](int i) { return static_cast<double>(partial[i]); });
  if (!g.first()) return;
  const float norm = static_cast<float>(sqrt(total));
  const bool clips = scalars->clip_norm > 0.0f && norm > scalars->clip_norm;
  results->grad_norm = norm;
  results->clip_scale = clips ? scalars->clip_norm / norm : 1.0f;
  results->skipped = !(is_finite(norm) && is_finite(results->loss));
}

}  // namespace llmc
