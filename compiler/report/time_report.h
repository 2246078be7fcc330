// What a step is predicted to take, and what of it each op has.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "compiler/plan/plan.h"

namespace llmc::report {

/// "38 ms", "2.5 h", "12.3 days"
std::string human_seconds(double seconds);

/// Step time, tokens a second, MFU, the run's duration, what was chosen, and the ten launches that take most.
std::string time_text(const plan::Plan& plan);

/// "step_seconds", "tokens_per_second", "mfu", "run_seconds", "time", "device" and "choice"; launches with their
/// seconds.
void add_time(nlohmann::ordered_json& json, const plan::Plan& plan);

/// The run's device-hours at `price` each, as a line. Steps alone: no evaluation, samples or saves.
std::string cost_text(const plan::Plan& plan, double price);

/// The formula of every launch whose op or kernel is called `name`, with its numbers. Throws Failure(usage) where there
/// is none, with the names that there are.
std::string explain_text(const plan::Plan& plan, const std::string& name);

}  // namespace llmc::report
