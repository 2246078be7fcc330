#include "step/optimizer.h"

namespace llmc {

OptimizerScalars optimizer_scalars(const spec::Optimizer& optimizer, std::span<const ParameterGroup> groups,
                                   const StepRates& rates, std::int64_t updates) {
  OptimizerScalars scalars;
  for (const GroupsOptimizer& named : optimizers_of(groups, optimizer.kind)) {
    std::vector<std::byte>& records = scalars.records.emplace_back();
    for (const ParameterGroup& group : groups) {
      const auto [beta1, beta2] = optimizer.betas_of[static_cast<std::size_t>(group.role)];
      const std::vector<std::byte> record =
          row_of(named.kind)
              .scalars({.beta1 = beta1, .beta2 = beta2, .eps = optimizer.eps, .muon = optimizer.muon}, updates);
      records.insert(records.end(), record.begin(), record.end());
    }
  }
  for (const ParameterGroup& group : groups) {
    const auto role = static_cast<std::size_t>(group.role);
    scalars.groups.push_back(
        {.lr = static_cast<float>(rates.lr * optimizer.rate_scale[role]),
         .weight_decay = static_cast<float>(rates.weight_decay * optimizer.weight_decay_of[role])});
  }
  return scalars;
}

}  // namespace llmc
