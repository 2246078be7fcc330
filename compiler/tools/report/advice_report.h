// What else a planned run could be, for people and for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "compiler/plan/advice.h"

namespace llmc::report {

/// The largest micro-batch and the longest sequence that fit, then the hints, a line each.
std::string advice_text(const plan::Plan& plan, const plan::Limits& limits, const std::vector<plan::Hint>& hints);

/// "limits" and "hints": what advice_text says.
void add_advice(nlohmann::ordered_json& json, const plan::Limits& limits, const std::vector<plan::Hint>& hints);

}  // namespace llmc::report
