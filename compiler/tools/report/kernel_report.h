// The kernels of a plan: what each launch moves, and what ptxas made of it.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compiler/build/ptxas.h"
#include "compiler/plan/plan.h"

namespace llmc::report {

/// By kernel; empty for a target that ptxas does not assemble for.
using KernelUses = std::map<std::string, std::vector<build::KernelUse>>;

nlohmann::ordered_json kernels_json(const plan::Plan& plan, const KernelUses& uses);

/// A line for each kernel, and architecture where there are several.
std::string kernels_text(const plan::Plan& plan, const KernelUses& uses);

}  // namespace llmc::report
