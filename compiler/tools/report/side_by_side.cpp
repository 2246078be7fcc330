#include "compiler/tools/report/side_by_side.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "compiler/tools/report/plan_report.h"
#include "compiler/tools/report/time_report.h"

namespace llmc::report {

using plan::Plan;

namespace {

constexpr std::size_t kLaunchesShown = 10;  // of the launches

struct Pair {
  std::string name;
  double values[2] = {0, 0};  // of the plan before and after

  double difference() const { return values[1] - values[0]; }
};

void add(std::vector<Pair>& list, const std::string& name, int side, double value) {
  auto found = std::ranges::find(list, name, &Pair::name);
  if (found == list.end()) found = list.insert(list.end(), {name});
  found->values[side] += value;
}

std::vector<Pair> memory(const Plan* const (&plans)[2]) {
  std::vector<Pair> list;
  for (const int side : {0, 1})
    for (const plan::Section& section : plans[side]->layout.sections)
      add(list, section.name, side, static_cast<double>(section.bytes));
  return list;
}

/// Lists times by kernel or product, largest difference first.
std::vector<Pair> time(const Plan* const (&plans)[2]) {
  std::vector<Pair> list;
  for (const int side : {0, 1})
    for (const Spent& item : spent(*plans[side])) add(list, item.launch->what, side, item.seconds);
  std::ranges::stable_sort(list, std::greater{}, [](const Pair& pair) { return std::fabs(pair.difference()); });
  return list;
}

std::string row(const std::string& name, const Pair& pair, const auto& show) {
  return change_row(name, 38, pair.values[0], pair.values[1], show);
}

nlohmann::ordered_json rows_json(const std::vector<Pair>& list, const char* name) {
  auto rows = nlohmann::ordered_json::array();
  for (const Pair& pair : list)
    rows.push_back({{name, pair.name}, {"before", pair.values[0]}, {"after", pair.values[1]}});
  return rows;
}

}  // namespace

std::string side_by_side_text(const Plan& a, const Plan& b) {
  const Plan* const plans[2] = {&a, &b};
  const std::string devices = a.device.name == b.device.name ? a.device.name : a.device.name + " -> " + b.device.name;
  std::string out = fmt::format("choice\n  {}\n  {}\n\nmemory\n", choice_words(a), choice_words(b));
  for (const Pair& pair : memory(plans)) out += row(pair.name, pair, human_bytes);
  const Pair step{"a step", {a.cost.time.seconds, b.cost.time.seconds}};
  out += fmt::format("\ntime, predicted for {}\n{}", devices, row(step.name, step, human_seconds));
  const std::vector<Pair> list = time(plans);
  for (std::size_t i = 0; i < std::min(kLaunchesShown, list.size()) && list[i].difference() != 0; ++i)
    out += row(list[i].name, list[i], human_seconds);
  return out;
}

nlohmann::ordered_json side_by_side_json(const Plan& a, const Plan& b) {
  const Plan* const plans[2] = {&a, &b};
  return {{"choice", {{"before", choice_json(a)}, {"after", choice_json(b)}}},
          {"step_seconds", {{"before", a.cost.time.seconds}, {"after", b.cost.time.seconds}}},
          {"memory", rows_json(memory(plans), "name")},
          {"time", rows_json(time(plans), "runs")}};
}

}  // namespace llmc::report
