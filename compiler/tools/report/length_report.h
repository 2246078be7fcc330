// Reports the length of a run: its tokens for each parameter, and its learning rate from step to step.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "compiler/plan/plan.h"
#include "spec/spec.h"

namespace llmc::report {

/// "20000 steps of 1048576 tokens are 21.0 G tokens, 17 for each parameter", of all phases of the run; without "of
/// 1048576 tokens" where these have batches of different sizes.
std::string tokens_text(const spec::Spec& spec);

/// The learning rate over the run as one line of characters.
std::string schedule_text(const plan::Plan& plan);

/// Tokens and learning rate; ends with a line feed.
std::string length_text(const plan::Plan& plan);

/// Steps, tokens, and tokens for each parameter.
nlohmann::ordered_json length_json(const plan::Plan& plan);

/// Points [step, learning rate] of the schedule, evenly spaced from the first step to the last.
nlohmann::ordered_json rate_points(const plan::Plan& plan);

}  // namespace llmc::report
