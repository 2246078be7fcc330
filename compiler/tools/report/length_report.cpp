#include "compiler/tools/report/length_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/tools/report/plan_report.h"
#include "spec/length/schedule.h"
#include "spec/length/schedule_line.h"
#include "spec/length/token_budget.h"
#include "spec/values.h"
#include "text/plural.h"

namespace llmc::report {

namespace {

constexpr int kColumns = 32;              // as at the start of a trainer
constexpr std::int64_t kIntervals = 128;  // between points of the page

}  // namespace

std::string tokens_text(const spec::Spec& spec) {
  const double tokens = spec::tokens_of_run(spec);
  const bool ramp = tokens != static_cast<double>(spec.schedule.steps) * static_cast<double>(spec.batch.tokens);
  const std::string each = ramp ? "" : fmt::format(" of {} token{}", spec.batch.tokens, plural(spec.batch.tokens));
  return fmt::format("{} step{}{} are {} tokens, {:.3g} for each parameter", spec.schedule.steps,
                     plural(spec.schedule.steps), each, human_count(tokens), spec::tokens_per_parameter(spec));
}

std::string schedule_text(const plan::Plan& plan) {
  const spec::Schedule& schedule = plan.spec.schedule;
  const double peak = plan.spec.optimizer.lr;
  // A plan is a file too, which does not depend on a locale.
  return fmt::format("{}  {}: {:.2e} at step {}, at most {:.2e}, {:.2e} at step {}",
                     schedule_line(schedule, peak, kColumns, false), spec::text_of("schedule.kind", plan.spec),
                     learning_rate(schedule, peak, schedule.from_step), schedule.from_step + 1, peak,
                     learning_rate(schedule, peak, schedule.steps - 1), schedule.steps);
}

std::string length_text(const plan::Plan& plan) {
  return fmt::format("length: {}\n  {}\n", tokens_text(plan.spec), schedule_text(plan));
}

nlohmann::ordered_json length_json(const plan::Plan& plan) {
  return {{"steps", plan.spec.schedule.steps},
          {"tokens", spec::tokens_of_run(plan.spec)},
          {"tokens_per_parameter", spec::tokens_per_parameter(plan.spec)}};
}

nlohmann::ordered_json rate_points(const plan::Plan& plan) {
  const spec::Schedule& schedule = plan.spec.schedule;
  nlohmann::ordered_json points = nlohmann::ordered_json::array();
  const std::int64_t first = schedule.from_step, last = schedule.steps - 1;
  const std::int64_t intervals = std::min(kIntervals, last - first);
  for (std::int64_t i = 0; i <= intervals; ++i) {
    const double share = intervals ? static_cast<double>(i) / static_cast<double>(intervals) : 0;
    const auto step = first + static_cast<std::int64_t>(share * static_cast<double>(last - first));
    points.push_back({step + 1, learning_rate(schedule, plan.spec.optimizer.lr, step)});
  }
  return points;
}

}  // namespace llmc::report
