#include <cmath>

#include "compiler/tools/float64/rules.h"
#include "compiler/tools/float64/update.h"

namespace llmc::float64 {

/// Chen et al. 2023: with g = gradient clip_scale, p = p (1 - lr weight_decay) - lr sign(beta1 m + (1 - beta1) g), m =
/// beta2 m + (1 - beta2) g.
void lion(OpRun& run) {
  update(run, [](UpdateElement& e, const void* record) {
    const auto& scalars = *static_cast<const LionScalars*>(record);
    const double beta1 = static_cast<double>(scalars.beta1), beta2 = static_cast<double>(scalars.beta2);
    const double g = e.gradient, before = e.weight;
    double& m = *e.state[0];
    const double terms = std::abs(m) + std::abs(g), direction = beta1 * m + (1 - beta1) * g;
    const double sign = direction > 0 ? 1 : direction < 0 ? -1 : 0;
    e.weight = before * (1 - e.lr * e.weight_decay) - e.lr * sign;
    m = beta2 * m + (1 - beta2) * g;
    *e.state_scales[0] = terms;
    // If rounding decides the sign, the kernel may compute the other one.
    constexpr double kNoise = 8 * kFp32;
    e.weight_scale = std::abs(before) + e.lr + (std::abs(direction) <= kNoise * terms ? 2 * e.lr / kNoise : 0.0);
  });
}

}  // namespace llmc::float64
