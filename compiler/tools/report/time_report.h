// What a step is predicted to take, and what of it each op has.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"
#include "compiler/plan/price.h"

namespace llmc::report {

/// "38 ms", "2.5 h", "12.3 days"
std::string human_seconds(double seconds);

/// Launches that are priced alike in one part of the step.
struct Spent {
  const plan::Launch* launch;
  plan::Price price;  // of one
  double seconds;     // of a step
  double times;
};

/// What runs in a step, that which takes most first. Collectives take link time, beside the passes or not.
std::vector<Spent> spent(const plan::Plan& plan);
nlohmann::ordered_json spent_json(const Spent& item);

/// "micro_batch 8, loss_chunk 8192, recompute none, shard optimizer": what `auto` became, or the spec says.
std::string choice_words(const plan::Plan& plan);
nlohmann::ordered_json choice_json(const plan::Plan& plan);

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
