// Prints limits and hints for a planned run, for people and for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "compiler/plan/advice.h"

namespace llmc::report {

/// Prints the largest micro-batch and the longest sequence that fit, then the hints, one per line.
std::string advice_text(const plan::Plan& plan, const plan::Limits& limits, const std::vector<plan::Hint>& hints);

/// Adds "limits" and "hints": the contents of advice_text().
void add_advice(nlohmann::ordered_json& json, const plan::Limits& limits, const std::vector<plan::Hint>& hints);

}  // namespace llmc::report
