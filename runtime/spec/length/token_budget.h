// Length of a run by its tokens: schedule.tokens, a number or a multiple of the model's parameters.
#pragma once

#include <cstdint>
#include <optional>

#include "spec/spec.h"

namespace llmc::spec {

/// Tokens for each parameter with which a model of a given amount of compute has the least loss (Hoffmann et al. 2022,
/// "Training Compute-Optimal Large Language Models", table 3).
inline constexpr double kOptimalTokensPerParameter = 20;

/// Elements of the model's weights, without padding. 0: not all sizes are known.
std::int64_t parameter_count(const Model& model);

/// Tokens that the budget stands for in this model. A number that no integer holds becomes the largest integer.
std::int64_t tokens_of(const TokenBudget& budget, const Model& model);

/// Steps of batch.tokens that contain the tokens of schedule.tokens; nothing while a size is unknown.
std::optional<std::int64_t> steps_of_budget(const Spec& spec);

/// Tokens that the whole run trains on, in all of its phases.
double tokens_of_run(const Spec& spec);

/// The same for each parameter.
double tokens_per_parameter(const Spec& spec);

}  // namespace llmc::spec
