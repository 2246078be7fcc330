// What the host tells the optimizer's kernels before each step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/types.h"
#include "program/parameters.h"
#include "spec/spec.h"

namespace llmc {

struct OptimizerScalars {
  AdamwScalars adamw;
  std::vector<GroupScalars> groups;
};

/// AdamW's after `step` steps at learning rate `lr` (Loshchilov and Hutter 2019).
OptimizerScalars optimizer_scalars(const spec::Optimizer& optimizer, std::span<const ParameterGroup> groups, double lr,
                                   std::int64_t step);

}  // namespace llmc
