#include "compiler/tools/report/phases_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "compiler/tools/report/disk_report.h"
#include "compiler/tools/report/length_report.h"
#include "compiler/tools/report/plan_report.h"
#include "compiler/tools/report/time_report.h"
#include "text/console.h"

namespace llmc::report {

using plan::Plan;

namespace {

using Row = std::vector<std::string>;

double seconds_of(const Plan& plan) { return static_cast<double>(plan.spec.own_steps()) * plan.cost.time.seconds; }

double tokens_of(const Plan& plan) {
  return static_cast<double>(plan.spec.own_steps()) * static_cast<double>(plan.spec.batch.tokens);
}

}  // namespace

WholeRun sum_phases(std::span<const Plan* const> phases) {
  WholeRun run;
  for (const Plan* plan : phases) {
    run.seconds += seconds_of(*plan);
    run.tokens += tokens_of(*plan);
    run.memory = std::max(run.memory, plan->layout.bytes);
    run.most_checkpoints = std::max(run.most_checkpoints, most_checkpoints(*plan));
  }
  run.device_hours = run.seconds / 3600 * static_cast<double>(phases[0]->spec.parallel.world_size);
  run.checkpoint_bytes = static_cast<std::size_t>(checkpoint_bytes(*phases[0]));
  const std::vector<int>& trainers = phases[0]->spec.phase.trainers;
  for (std::size_t i = 0; i + 1 < trainers.size(); ++i) run.kept_borders += trainers[i] != trainers[i + 1];
  return run;
}

nlohmann::ordered_json phases_plan_json(std::span<const Plan* const> phases) {
  const WholeRun run = sum_phases(phases);
  nlohmann::ordered_json json = {{"run",
                                  {{"steps", phases[0]->spec.schedule.steps},
                                   {"tokens", run.tokens},
                                   {"seconds", run.seconds},
                                   {"device_hours", run.device_hours},
                                   {"memory_bytes", run.memory},
                                   {"disk",
                                    {{"checkpoint_bytes", run.checkpoint_bytes},
                                     {"kept_borders", run.kept_borders},
                                     {"most_bytes", run.most_checkpoints * run.checkpoint_bytes}}}}},
                                 {"phases", nlohmann::ordered_json::array()}};
  for (const Plan* plan : phases) {
    const spec::Phase& phase = plan->spec.phase;
    json["phases"].push_back({{"phase", phase.number},
                              {"until", phase.last},
                              {"trainer", phase.trainers[static_cast<std::size_t>(phase.number) - 1]},
                              {"changed", phase.changed},
                              {"tokens", tokens_of(*plan)},
                              {"seconds", seconds_of(*plan)},
                              {"plan", plan_json(*plan)}});
  }
  return json;
}

std::string phases_text(std::span<const Plan* const> phases, double price) {
  std::vector<Row> rows = {{""}};
  for (const Plan* plan : phases) rows[0].push_back(fmt::format("phase {}", plan->spec.phase.number));
  rows[0].push_back("run");
  const auto each = [&](const char* name, const std::function<std::string(const Plan&)>& of, const std::string& run) {
    Row row = {name};
    for (const Plan* plan : phases) row.push_back(of(*plan));
    row.push_back(run);
    rows.push_back(std::move(row));
  };
  const WholeRun run = sum_phases(phases);
  const double seconds = run.seconds, tokens = run.tokens;
  each(
      "until step", [](const Plan& plan) { return format_count(plan.spec.phase.last); },
      format_count(phases.back()->spec.phase.last));
  each(
      "trainer",
      [](const Plan& plan) {
        const spec::Phase& phase = plan.spec.phase;
        return fmt::format("phase-{}", phase.trainers[static_cast<std::size_t>(phase.number) - 1]);
      },
      "");
  each("sequence", [](const Plan& plan) { return format_count(plan.spec.batch.sequence_length); }, "");
  each(
      "tokens", [](const Plan& plan) { return fmt::format("{:.4g}", tokens_of(plan)); }, fmt::format("{:.4g}", tokens));
  each(
      "tokens/s",
      [](const Plan& plan) { return format_count(static_cast<std::int64_t>(tokens_of(plan) / seconds_of(plan))); },
      format_count(static_cast<std::int64_t>(tokens / seconds)));
  each("time", [](const Plan& plan) { return format_duration(seconds_of(plan)); }, format_duration(seconds));
  each(
      "memory", [](const Plan& plan) { return human_bytes(static_cast<double>(plan.layout.bytes)); },
      human_bytes(static_cast<double>(run.memory)));
  const auto disk = [&](std::size_t checkpoints) {
    return human_bytes(static_cast<double>(checkpoints * run.checkpoint_bytes));
  };
  each("disk", [&](const Plan& plan) { return disk(most_checkpoints(plan)); }, disk(run.most_checkpoints));
  if (price > 0) {
    const auto cost = [&](double of) { return fmt::format("{:.2f}", of / seconds * run.device_hours * price); };
    each("price", [&](const Plan& plan) { return cost(seconds_of(plan)); }, cost(seconds));
  }
  std::vector<std::size_t> widths(rows[0].size());
  for (const Row& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  std::string text;
  for (const Row& row : rows) {
    text += fmt::format("{:<{}}", row[0], widths[0]);
    for (std::size_t c = 1; c < row.size(); ++c) text += fmt::format("  {:>{}}", row[c], widths[c]);
    text += "\n";
  }
  text += fmt::format(
      "run: {} steps, {:.4g} tokens, {}, {:.4g} device-hours{}, at most {} on disk in {} checkpoints, {} of "
      "them of borders\n",
      phases[0]->spec.schedule.steps, tokens, format_duration(seconds), run.device_hours,
      price > 0 ? fmt::format(" for {:.2f}", run.device_hours * price) : "", disk(run.most_checkpoints),
      run.most_checkpoints, run.kept_borders);
  const bool one_rate = std::ranges::all_of(
      phases, [&](const Plan* plan) { return plan->spec.optimizer.lr == phases[0]->spec.optimizer.lr; });
  for (const Plan* plan : phases.first(one_rate ? 1 : phases.size()))
    text += fmt::format("  {}{}\n", schedule_text(*plan),
                        one_rate ? "" : fmt::format(", in phase {}", plan->spec.phase.number));
  for (const Plan* plan : phases)
    if (!plan->spec.phase.changed.empty())
      text += fmt::format("phase {} changes {}\n", plan->spec.phase.number, fmt::join(plan->spec.phase.changed, ", "));
  return text;
}

}  // namespace llmc::report
