// Two plans beside each other: memory by section, time by kernel or product, what was chosen.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "compiler/plan/plan.h"

namespace llmc::report {

/// Sections of the arena, and the launches whose time of a step differs most. Where the plans are for several devices
/// their names are in it.
std::string beside_text(const plan::Plan& a, const plan::Plan& b);

/// {"choice": {before, after}, "step_seconds": ..., "memory": [{name, before, after}], "time": [{runs, before,
/// after}]}: bytes, and seconds of a step; 0 of what one plan does not have.
nlohmann::ordered_json beside_json(const plan::Plan& a, const plan::Plan& b);

}  // namespace llmc::report
