#include "step/optimizer.h"

#include <cmath>

namespace llmc {

OptimizerScalars optimizer_scalars(const spec::Optimizer& optimizer, std::span<const ParameterGroup> groups, double lr,
                                   std::int64_t step) {
  const double t = static_cast<double>(step + 1);
  OptimizerScalars scalars{
      {static_cast<float>(optimizer.beta1), static_cast<float>(optimizer.beta2), static_cast<float>(optimizer.eps),
       static_cast<float>(1 - std::pow(optimizer.beta1, t)), static_cast<float>(1 - std::pow(optimizer.beta2, t))},
      {}};
  for (const ParameterGroup& group : groups)
    scalars.groups.push_back({static_cast<float>(lr * optimizer.rate_scale[static_cast<std::size_t>(group.scale)]),
                              group.decay || optimizer.decay_all ? static_cast<float>(optimizer.weight_decay) : 0.0f});
  return scalars;
}

}  // namespace llmc
