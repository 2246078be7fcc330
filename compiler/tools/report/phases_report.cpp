#include "compiler/tools/report/phases_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <vector>

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
  double seconds = 0, tokens = 0;
  std::size_t memory = 0;
  for (const Plan* plan : phases) {
    seconds += seconds_of(*plan);
    tokens += tokens_of(*plan);
    memory = std::max(memory, plan->layout.bytes);
  }
  each(
      "until step", [](const Plan& plan) { return format_count(plan.spec.phase.last); },
      format_count(phases.back()->spec.phase.last));
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
      human_bytes(static_cast<double>(memory)));
  if (price > 0) {
    const auto cost = [&](double of) {
      return fmt::format("{:.2f}", of / 3600 * static_cast<double>(phases[0]->spec.parallel.world_size) * price);
    };
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
  for (const Plan* plan : phases)
    if (!plan->spec.phase.changed.empty())
      text += fmt::format("phase {} changes {}\n", plan->spec.phase.number, fmt::join(plan->spec.phase.changed, ", "));
  return text;
}

}  // namespace llmc::report
