#include <cmath>

#include "compiler/tools/float64/rules.h"
#include "compiler/tools/float64/update.h"

namespace llmc::float64 {

/// Loshchilov and Hutter 2019, as in PyTorch: with g = gradient clip_scale,
/// m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2,
/// p = p (1 - lr weight_decay) - lr / (1 - beta1^t) m / (sqrt(v / (1 - beta2^t)) + eps).
void adamw_formula(UpdateElement& e, const void* record) {
  const auto& scalars = *static_cast<const AdamwScalars*>(record);
  const double beta1 = static_cast<double>(scalars.beta1), beta2 = static_cast<double>(scalars.beta2);
  const bool unknown = e.updates - scalars.updates > 1;  // to the host: the update before this one
  const double g = e.gradient, before = e.weight;
  double &m = *e.state[0], &v = *e.state[1];
  const double m_terms = std::abs(m) + std::abs(g), v_terms = v + g * g;
  m = beta1 * m + (1 - beta1) * g;
  v = beta2 * v + (1 - beta2) * g * g;
  const double rate =
      e.lr / static_cast<double>(scalars.bias_correction1[unknown]) /
      (std::sqrt(v / static_cast<double>(scalars.bias_correction2[unknown])) + static_cast<double>(scalars.eps));
  e.weight = before * (1 - e.lr * e.weight_decay) - rate * m;
  // A moment is a small difference of its terms if beta is near 1, and the update inherits the moments' errors.
  *e.state_scales[0] = m_terms;
  *e.state_scales[1] = v_terms;
  e.weight_scale = std::abs(before) + rate * m_terms + (v > 0 ? std::abs(rate * m) * v_terms / v : 0.0);
}

void adamw(OpRun& run) { update(run, adamw_formula); }

}  // namespace llmc::float64
