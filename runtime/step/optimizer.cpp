#include "step/optimizer.h"

namespace llmc {

OptimizerScalars optimizer_scalars(const spec::Optimizer& optimizer, std::span<const ParameterGroup> groups, double lr,
                                   std::int64_t updates) {
  OptimizerScalars scalars;
  for (const GroupsOptimizer& named : optimizers_of(groups, optimizer.kind))
    scalars.records.push_back(row_of(named.kind).scalars(optimizer, updates));
  for (const ParameterGroup& group : groups)
    scalars.groups.push_back({static_cast<float>(lr * optimizer.rate_scale[static_cast<std::size_t>(group.scale)]),
                              group.decay || optimizer.decay_all ? static_cast<float>(optimizer.weight_decay) : 0.0f});
  return scalars;
}

}  // namespace llmc
