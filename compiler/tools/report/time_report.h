// Reports the predicted time of a step, and the fraction that each op takes.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"
#include "compiler/plan/price.h"

namespace llmc::report {

/// Prints "38 ms", "2.5 h" or "12.3 days".
std::string human_seconds(double seconds);

/// Launches with the same price in one part of the step.
struct Spent {
  const plan::Launch* launch;
  plan::Price price;  // of one launch
  double seconds;     // of a step
  double times;
};

/// Lists the launches of a step, longest time first. Collectives count their link time, overlapped or not.
std::vector<Spent> spent(const plan::Plan& plan);
nlohmann::ordered_json spent_json(const Spent& item);

/// Prints "micro_batch 8, loss_chunk 8192, recompute none, shard optimizer": the values of the spec, or those chosen
/// for `auto`.
std::string choice_words(const plan::Plan& plan);
nlohmann::ordered_json choice_json(const plan::Plan& plan);

/// Prints step time, tokens per second, MFU, the run's duration, the choices, and the ten longest launches.
std::string time_text(const plan::Plan& plan);

/// Adds "step_seconds", "tokens_per_second", "mfu", "run_seconds", "time", "device" and "choice"; launches with their
/// seconds.
void add_time(nlohmann::ordered_json& json, const plan::Plan& plan);

/// Prints a line with the run's device-hours at `price` each. Counts steps alone: no evaluation, samples or saves.
std::string cost_text(const plan::Plan& plan, double price);

/// Prints the formula with its numbers for every launch whose op or kernel is called `name`. Throws Failure(usage) with
/// the known names if there is none.
std::string explain_text(const plan::Plan& plan, const std::string& name);

}  // namespace llmc::report
