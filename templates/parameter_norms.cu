// parameter_norms: L2 norms of each parameter's gradient, weights and last update, from sums of squares of its chunks.
#include "device/group.h"
#include "params.h"

namespace llmc {

/// gradient_partial, weight_partial, update_partial: one number per chunk; parameter p has chunks first_chunk[p] up to
/// first_chunk[p + 1] - 1; norms [kParameters, 3].
LLMC_BOUNDS(kLanes)
LLMC_KERNEL parameter_norms(const float* __restrict__ gradient_partial, const float* __restrict__ weight_partial,
                            const float* __restrict__ update_partial, const int* __restrict__ first_chunk,
                            float* __restrict__ norms LLMC_FURTHER_OPERANDS) {
  const Group<kLanes> lanes;
  for (const int parameter : lanes.rows(kParameters)) {
    const int first = first_chunk[parameter], count = first_chunk[parameter + 1] - first;
    const auto norm = [&](const float* partial) {
      return static_cast<float>(
          sqrt(lanes.sum<double>(lanes.unaligned(partial + first, count), [](float v) { return v; })));
    };
    const float gradient = norm(gradient_partial), weight = norm(weight_partial), update = norm(update_partial);
    if (lanes.leads()) {
      norms[parameter * 3] = gradient;
      if constexpr (kLossScaled) norms[parameter * 3] /= dynamic_scale->last;
      norms[parameter * 3 + 1] = weight;
      norms[parameter * 3 + 2] = update;
    }
  }
}

}  // namespace llmc
