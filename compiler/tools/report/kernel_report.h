// Reports the kernels of a plan: bytes moved by each launch, and ptxas' figures.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compiler/build/ptxas.h"
#include "compiler/plan/plan.h"

namespace llmc::report {

/// By kernel; empty if ptxas does not assemble for the target.
using KernelUses = std::map<std::string, std::vector<build::KernelUse>>;

nlohmann::ordered_json kernels_json(const plan::Plan& plan, const KernelUses& uses);

/// Prints a line for each kernel, and for each architecture if there are several.
std::string kernels_text(const plan::Plan& plan, const KernelUses& uses);

}  // namespace llmc::report
