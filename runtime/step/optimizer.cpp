#include "step/optimizer.h"

namespace llmc {

OptimizerScalars optimizer_scalars(const spec::Optimizer& optimizer, std::span<const ParameterGroup> groups,
                                   const StepRates& rates, std::int64_t updates) {
  OptimizerScalars scalars;
  for (const GroupsOptimizer& named : optimizers_of(groups, optimizer.kind))
    scalars.records.push_back(row_of(named.kind).scalars(optimizer, updates));
  for (const ParameterGroup& group : groups) {
    const auto role = static_cast<std::size_t>(group.role);
    scalars.groups.push_back(
        {.lr = static_cast<float>(rates.lr * optimizer.rate_scale[role]),
         .weight_decay = static_cast<float>(rates.weight_decay * optimizer.weight_decay_of[role])});
  }
  return scalars;
}

}  // namespace llmc
