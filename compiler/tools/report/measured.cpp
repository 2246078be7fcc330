#include "compiler/tools/report/measured.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <map>
#include <tuple>

#include "compiler/plan/price.h"
#include "compiler/plan/step_time.h"
#include "compiler/tools/report/plan_report.h"
#include "error.h"
#include "files/disk.h"
#include "text/json_problem.h"
#include "text/printable.h"

namespace llmc::report {

using plan::Plan;
using Json = nlohmann::json;

namespace {

constexpr int kVersion = 1;

/// Layers with different recomputation run the same op.
using Key = std::tuple<graph::Part, graph::Block, std::string>;

Key key_of(const Plan& plan, const plan::Launch& launch) {
  const graph::Region& region = plan.graph.regions[launch.region_index];
  return {region.part, region.block, launch.op};
}

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& why) {
  throw Failure(Exit::usage, fmt::format("--measured {}: {}", file.string(), why));
}

Json parse(const std::filesystem::path& file) {
  const std::optional<std::string> text = disk::text(file);
  if (!text && errno == EISDIR) refuse(file, "this is a folder. Name the file in it");
  if (!text) refuse(file, fmt::format("the file cannot be read: {}", std::strerror(errno)));
  const Json trace = Json::parse(*text, nullptr, false);
  if (!trace.is_object() || !trace.contains("traceEvents") || !trace.contains("otherData") ||
      !trace["otherData"].contains("fingerprint"))
    refuse(file, "this is not a timeline. Write one with trainer --timeline FILE");
  return trace;
}

}  // namespace

int measured_ranks(const std::filesystem::path& file, const std::string& fingerprint) try {
  const Json about = parse(file).at("otherData");
  if (about.at("version").get<int>() != kVersion)
    refuse(file, fmt::format("it has version {}, but this llmc reads {}. Write it with a trainer of this llmc",
                             about.at("version").dump(), kVersion));
  if (const std::string print = about.at("fingerprint").get<std::string>(); print != fingerprint)
    refuse(file, fmt::format("it is of {} with fingerprint {}, but this plan has fingerprint {}. Give the spec and the "
                             "values that the trainer was compiled with",
                             about.at("name").dump(), print, fingerprint));
  return about.at("world_size").get<int>();
} catch (const Json::exception& error) {
  refuse(file, fmt::format("it does not have the form that trainer --timeline writes: {}", json_problem(error)));
}

Measured read_measured(const std::filesystem::path& file, const Plan& plan) try {
  const Json trace = parse(file);
  const Json& about = trace.at("otherData");
  std::map<Key, MeasuredOp> ops;
  std::map<std::pair<std::string, std::string>, Key> keys;                   // by region and op
  const std::vector<std::int64_t> of_matrices = plan::matrix_runs(plan, 0);  // the first rank writes timelines
  for (const plan::Launch& launch : plan.launches) {
    const bool of_matrix = plan.graph.regions[launch.region_index].matrix != graph::kNoMatrix;
    const auto times = static_cast<double>(of_matrix ? of_matrices[launch.region_index] : plan.times_a_step(launch));
    if (times == 0) continue;
    const Key key = key_of(plan, launch);
    const bool known = keys.contains({launch.region, launch.op});
    keys.insert({{launch.region, launch.op}, key});
    MeasuredOp& op = ops.try_emplace(key, MeasuredOp{launch.region, launch.op, launch.what}).first->second;
    // An attention pass may be several launches, and is timed as one.
    if (!known || !is_in_attention(launch.call)) op.times += times;
    op.predicted += times * plan::price(plan, launch).seconds;
  }

  Measured measured;
  measured.device = about.at("device").get<std::string>();
  measured.threads = about.at("threads").get<int>();
  measured.first_step = about.at("steps").at(0).get<std::int64_t>();
  measured.steps = static_cast<std::int64_t>(about.at("steps").size());
  const auto steps = static_cast<double>(measured.steps);
  for (const Json& seconds : about.at("step_seconds")) measured.step_seconds += seconds.get<double>() / steps;
  const Json& events = trace.at("traceEvents");
  const auto is_launch = [](const Json& event) { return event.at("ph") == "X" && event.at("args").contains("runs"); };
  std::map<Key, double> runs;
  int passes = 0;  // the track of the steps
  for (const Json& event : events)
    if (event.at("ph") == "X" && event.at("cat") == "step") passes = event.at("tid").get<int>();
  for (const Json& event : events) {
    if (!is_launch(event)) continue;
    const auto region = event.at("args").at("region").get<std::string>(), name = event.at("name").get<std::string>();
    const auto key = keys.find({region, name});
    if (key == keys.end())
      refuse(file,
             fmt::format(
                 "it has a launch {} of {}, which is not in the plan. Write it with a trainer that this llmc compiled",
                 event.at("name").dump(), event.at("args").at("region").dump()));
    const double seconds = 1e-6 * event.at("dur").get<double>() / steps;
    ops.at(key->second).measured += seconds;
    runs[key->second] += 1 / steps;
    if (event.at("tid").get<int>() == passes) measured.launch_seconds += seconds;
  }
  for (const auto& [key, op] : ops) {
    const auto ran = runs.find(key);
    if (ran == runs.end() && plan.spec.parallel.world_size == 1 && op.predicted == 0)
      continue;  // a single rank sends nothing
    const double times = ran == runs.end() ? 0 : ran->second;
    if (std::abs(times - op.times) > 1e-6 * op.times)
      refuse(file, fmt::format("{} of {} ran {:g} times a step, but in this plan it runs {:g} times. Give the run's "
                               "own values, such as batch.tokens",
                               op.op, op.region, times, op.times));
    measured.ops.push_back(op);
  }
  std::ranges::stable_sort(measured.ops, std::greater{},
                           [](const MeasuredOp& op) { return std::abs(op.measured - op.predicted); });
  return measured;
} catch (const Json::exception& error) {
  refuse(file, fmt::format("it does not have the form that trainer --timeline writes: {}", json_problem(error)));
}

std::string measured_text(const Plan& plan, const Measured& measured) {
  const auto change = [](double from, double to) { return 100 * (to / from - 1); };
  double predicted = 0, all = 0;
  for (const MeasuredOp& op : measured.ops) predicted += op.predicted, all += op.measured;
  const auto ms = [](double seconds) { return fmt::format("{:.3f} ms", 1e3 * seconds); };
  std::string out =
      fmt::format("measured on {}: steps {} to {}, {} a step, of which launches explain {:.1f}%\n",
                  printable(measured.device), measured.first_step, measured.first_step + measured.steps - 1,
                  ms(measured.step_seconds), 100 * measured.launch_seconds / measured.step_seconds);
  out += fmt::format("predicted for {}: {} a step, {:+.1f}%; all launches {} predicted, {} measured\n\n",
                     plan.device.name, ms(plan.cost.time.seconds),
                     change(measured.step_seconds, plan.cost.time.seconds), ms(predicted), ms(all));
  out += fmt::format("  {:>13} {:>13} {:>13}  {:>5}  {:<22} {:<28} {}\n", "measured", "predicted", "difference",
                     "times", "region", "op", "runs");
  for (const MeasuredOp& op : measured.ops)
    out +=
        fmt::format("  {:>13} {:>13} {:>13}  {:>5.0f}  {:<22} {:<28} {}\n", ms(op.measured), ms(op.predicted),
                    fmt::format("{:+.3f} ms", 1e3 * (op.predicted - op.measured)), op.times, op.region, op.op, op.runs);
  return out;
}

nlohmann::ordered_json measured_json(const Plan& plan, const Measured& measured) {
  nlohmann::ordered_json ops = nlohmann::ordered_json::array();
  for (const MeasuredOp& op : measured.ops)
    ops.push_back({{"region", op.region},
                   {"op", op.op},
                   {"runs", op.runs},
                   {"times_a_step", op.times},
                   {"measured_seconds", op.measured},
                   {"predicted_seconds", op.predicted}});
  return {{"device", measured.device},
          {"threads", measured.threads},
          {"first_step", measured.first_step},
          {"steps", measured.steps},
          {"step_seconds", measured.step_seconds},
          {"predicted_step_seconds", plan.cost.time.seconds},
          {"launches_share", measured.launch_seconds / measured.step_seconds},
          {"ops", ops}};
}

}  // namespace llmc::report
