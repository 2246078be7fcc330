#include "train/guards.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "run/median.h"
#include "text/console.h"
#include "text/plural.h"

namespace llmc {

namespace {

constexpr float kNone = std::numeric_limits<float>::infinity();
constexpr double kNoNorm = 1e-30;  // at or below: zero gradients

/// Converts a limit to the float that the device compares with; one out of range becomes no limit.
float as_limit(double limit) { return limit < std::numeric_limits<float>::max() ? static_cast<float>(limit) : kNone; }

/// Keeps the last `count` values.
template <class T>
void keep_last(std::vector<T>& values, std::size_t count) {
  if (values.size() > count) values.erase(values.begin(), values.end() - static_cast<std::ptrdiff_t>(count));
}

}  // namespace

Spread spread_of(std::span<const double> values) {
  std::vector<double> distances(values.begin(), values.end());
  const double median = median_of(distances);
  for (double& distance : distances) distance = std::abs(distance - median);
  return {median, 1.4826 * median_of(std::move(distances))};
}

const char* skip_reason(int skipped) {
  switch (skipped) {
    case kApplied: return "";
    case kLossAbove: return "loss";
    case kGradNormAbove: return "grad_norm";
    case kOverflow: return "overflow";
    default: return "not_finite";
  }
}

std::string name_samples(std::span<const SampleId> samples, const SampleNames& names) {
  std::string text = fmt::format("sample{}", plural(static_cast<std::int64_t>(samples.size())));
  for (std::size_t i = 0; i < std::min(samples.size(), kNamedSamples); ++i)
    text += fmt::format("{} {}", i ? "," : "", names.of(samples[i]));
  return samples.size() > kNamedSamples ? text + fmt::format(" and {} more", samples.size() - kNamedSamples) : text;
}

Guard::Guard(const spec::Guards& values, double clip_norm, GuardState state)
    : values_(values), clip_norm_(clip_norm), state_(std::move(state)) {
  step_ = std::max(state_.newest, state_.skipped.empty() ? 0 : state_.skipped.back());
}

std::span<const double> Guard::judging(const std::vector<double>& values, std::int64_t step) const {
  const std::size_t known = values.size() - (state_.newest >= step - 1 && !values.empty() ? 1 : 0);
  const std::size_t count = std::min(known, static_cast<std::size_t>(values_.window));
  return std::span(values).subspan(known - count, count);
}

StepLimits Guard::limits(std::int64_t step) const {
  StepLimits limits{kNone, kNone};
  const auto window = [&](const std::vector<double>& values, double (*scale)(double)) {
    std::vector<double> scaled;
    for (const double value : judging(values, step)) scaled.push_back(scale(value));
    return spread_of(scaled);
  };
  if (static_cast<std::int64_t>(judging(state_.losses, step).size()) < std::min(values_.judge_after, values_.window))
    return limits;
  if (values_.loss > 0) {
    const auto [median, spread] = window(state_.losses, [](double loss) { return std::log1p(std::max(loss, 0.0)); });
    limits.loss = as_limit(std::expm1(median + values_.loss * std::max(spread, kLossFloor)));
  }
  if (values_.grad_norm > 0) {
    const auto [median, spread] =
        window(state_.grad_norms, [](double norm) { return std::log(std::max(norm, kNoNorm)); });
    const double limit = std::exp(median + values_.grad_norm * std::clamp(spread, kNormFloor, kNormCeiling));
    // A median of zero gradients gives no usable limit.
    if (median > std::log(kNoNorm)) limits.grad_norm = as_limit(std::max(limit, clip_norm_));
  }
  return limits;
}

std::string Guard::observe(std::int64_t step, const StepResults& results, const StepLimits& limits,
                           const std::string& samples, const std::string& where) {
  step_ = step;
  if (results.skipped == kOverflow) {
    // The loss scale's, which the device has halved.
  } else if (results.skipped != kApplied) {
    state_.skipped.push_back(step);
  } else if (std::isfinite(results.grad_norm)) {  // the device checks finiteness in double, but this value is a float
    state_.losses.push_back(results.loss);
    state_.grad_norms.push_back(results.grad_norm);
    state_.newest = step;
    keep_last(state_.losses, static_cast<std::size_t>(values_.window) + 1);
    keep_last(state_.grad_norms, static_cast<std::size_t>(values_.window) + 1);
  }
  const std::int64_t oldest = step - std::max(values_.limit_steps, values_.limit_in_a_row);
  std::erase_if(state_.skipped, [&](std::int64_t skipped) { return skipped <= oldest; });
  if (results.skipped == kApplied || results.skipped == kOverflow) return {};
  if (in_a_row() == 1) first_where_ = where;

  std::string why;
  const auto above = [&](const char* what, double value, double limit, const std::vector<double>& values) {
    const std::span<const double> window = judging(values, step);
    why = fmt::format("{} {:.4g} is above {:.4g}, and the median of the last steps is {:.4g} (guards.{})", what, value,
                      limit, median_of({window.begin(), window.end()}), skip_reason(results.skipped));
  };
  if (results.skipped == kLossAbove)
    above("loss", results.loss, limits.loss, state_.losses);
  else if (results.skipped == kGradNormAbove)
    above("gradient norm", results.grad_norm, limits.grad_norm, state_.grad_norms);
  else
    why = fmt::format("loss {} or gradient norm {} is not finite{}", without_nan_sign(results.loss),
                      without_nan_sign(results.grad_norm), where.empty() ? "" : ", " + where);
  const std::string limit = values_.limit > values_.limit_steps ? "" : fmt::format(" or {}", values_.limit);
  return fmt::format(
      "step {}: {}. The update was skipped ({} in a row, {} of the last {} steps; the run {} at {}{}). The ids of "
      "{} are in metrics.jsonl",
      step, why, in_a_row(), recent(), values_.limit_steps, values_.rollback ? "rolls back" : "stops",
      values_.limit_in_a_row, limit, samples);
}

std::int64_t Guard::in_a_row() const {
  std::int64_t count = 0;
  for (auto skipped = state_.skipped.rbegin(); skipped != state_.skipped.rend() && *skipped == step_ - count; ++skipped)
    ++count;
  return count;
}

std::int64_t Guard::recent() const {
  return std::ranges::count_if(state_.skipped, [&](std::int64_t s) { return s > step_ - values_.limit_steps; });
}

std::string Guard::exhausted() const {
  const std::int64_t row = in_a_row();
  if (row == 0) return {};
  if (row >= values_.limit_in_a_row)
    return fmt::format("{} update{} in a row {} skipped{}, so the weights are those of step {}", row, plural(row),
                       row == 1 ? "was" : "were", first_where_.empty() ? "" : ", at first " + first_where_,
                       step_ - row);
  if (const std::int64_t count = recent(); count >= values_.limit)
    return fmt::format("{} of the last {} updates were skipped, starting at step {}", count, values_.limit_steps,
                       first_skipped());
  return {};
}

std::int64_t Guard::first_skipped() const {
  const std::int64_t row = in_a_row();
  if (row >= values_.limit_in_a_row) return step_ - row + 1;
  const auto first =
      std::ranges::find_if(state_.skipped, [&](std::int64_t s) { return s > step_ - values_.limit_steps; });
  return first == state_.skipped.end() ? step_ : *first;
}

std::vector<std::int64_t> Guard::may_go_back_before() const {
  if (!values_.rollback || recent() == 0) return {};
  const auto first = std::ranges::upper_bound(state_.skipped, step_ - values_.limit_steps);
  const std::int64_t row = in_a_row();
  return row > 0 ? std::vector{step_ - row + 1, *first} : std::vector{*first};
}

std::string Guard::advice() const {
  return "Check the samples in metrics.jsonl, where skip_reason has the cause. Then resume from a checkpoint before "
         "them with a smaller optimizer.lr or optimizer.clip_norm, or with a larger guards.loss or guards.grad_norm if "
         "the samples are good";
}

bool change_losses(std::span<const std::string> keys) {
  return std::ranges::any_of(keys, [](const std::string& key) {
    return key == "batch.tokens" || key == "batch.sequence_length" || key.starts_with("data.train.") ||
           key.starts_with("data.documents.") || key.starts_with("model.");
  });
}

GuardState with_other_losses(GuardState state) {
  state.losses.clear();
  state.grad_norms.clear();
  state.plateau.means.clear();
  state.plateau.sum = 0;
  state.plateau.count = 0;
  return state;
}

std::string FrozenLoss::observe(std::int64_t step, double loss) {
  if (steps_ == 0 || told_) return {};
  const double smallest = std::min(smallest_, loss), largest = std::max(largest_, loss);
  if (count_ > 0 && largest - smallest <= change_ * std::abs(largest)) {
    smallest_ = smallest;
    largest_ = largest;
    ++count_;
  } else {
    smallest_ = largest_ = loss;
    count_ = std::isfinite(loss) ? 1 : 0;
  }
  if (count_ < steps_) return {};
  told_ = true;
  return fmt::format(
      "step {}: the loss has not changed from {:.6g} for {} steps (guards.frozen_steps). Likely causes: a learning "
      "rate of 0, the same batch in every step (see --batches), or weights without gradients",
      step, loss, steps_);
}

}  // namespace llmc
