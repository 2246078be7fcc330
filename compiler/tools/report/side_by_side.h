// Compares two plans side by side: memory by section, time by kernel or product, choices.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "compiler/plan/plan.h"

namespace llmc::report {

/// Prints the arena's sections and the launches whose time in a step differs most. Names the devices if the plans are
/// for different ones.
std::string side_by_side_text(const plan::Plan& a, const plan::Plan& b);

/// Returns {"choice": {before, after}, "step_seconds": ..., "memory": [{name, before, after}], "time": [{runs, before,
/// after}]}: bytes, and seconds of a step; 0 for items that one plan lacks.
nlohmann::ordered_json side_by_side_json(const plan::Plan& a, const plan::Plan& b);

}  // namespace llmc::report
