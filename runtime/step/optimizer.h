// Computes the scalars that the host sends to the optimizer's kernels before each step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/types.h"
#include "program/parameters.h"
#include "spec/spec.h"

namespace llmc {

struct OptimizerScalars {
  // Of each optimizer that groups name, in the order of optimizers_of(): a record for each group, its own or not.
  std::vector<std::vector<std::byte>> records;
  std::vector<GroupScalars> groups;
};

/// A step's values of the schedule.
struct StepRates {
  double lr;
  double weight_decay = 1;  // times the spec's
};

/// `updates` are known to have been applied (OptimizerRow::scalars).
OptimizerScalars optimizer_scalars(const spec::Optimizer& optimizer, std::span<const ParameterGroup> groups,
                                   const StepRates& rates, std::int64_t updates);

}  // namespace llmc
