#include "compiler/tools/report/time_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "compiler/plan/price.h"
#include "compiler/tools/report/plan_report.h"
#include "error.h"
#include "spec/recompute.h"
#include "spec/schema/schema.h"
#include "spec/values.h"

namespace llmc::report {

using plan::Plan;

namespace {

constexpr std::size_t kShown = 10;

std::pair<graph::Block, graph::Part> part_of(const Plan& plan, const plan::Launch& launch) {
  const graph::Region& region = plan.graph.regions[launch.region_index];
  return {region.block, region.part};
}

double tokens_per_second(const Plan& plan) {
  return static_cast<double>(plan.spec.batch.tokens) / plan.cost.time.seconds;
}

/// Relative to the dense peaks of all devices, as trainers print it.
double mfu(const Plan& plan) {
  const double peak = plan.device.peak(plan.spec);
  return plan.cost.model_flops_per_token * tokens_per_second(plan) /
         (peak * static_cast<double>(plan.spec.parallel.world_size));
}

double run_seconds(const Plan& plan) { return static_cast<double>(plan.spec.own_steps()) * plan.cost.time.seconds; }

std::string chosen(const Plan& plan, const char* key) { return spec::text_of(key, plan::chosen_spec(plan)); }

/// Returns the keys in which another choice differs: "micro_batch 8, loss_chunk 4096".
std::string differences(const spec::Spec& chosen, const spec::Spec& other) {
  std::string text;
  for (const spec::Change& change : spec::changes(chosen, other))
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", spec::leaf_of(change.path), change.after);
  return text;
}

bool is_named(const plan::Launch& launch, const std::string& name) {
  return launch.op == name || launch.what == name || launch.region == name;
}

}  // namespace

std::vector<Spent> spent(const Plan& plan) {
  std::vector<Spent> list;
  for (const plan::Launch& launch : plan.launches) {
    const auto times = static_cast<double>(plan.times_a_step(launch));
    if (times == 0) continue;
    const plan::Price price = plan::price(plan, launch);
    // Layers with different recomputation share a launch of the same price.
    const auto same = std::ranges::find_if(list, [&](const Spent& other) {
      return other.launch->what == launch.what && other.price.seconds == price.seconds &&
             part_of(plan, *other.launch) == part_of(plan, launch);
    });
    if (same == list.end()) {
      list.push_back({&launch, price, times * price.seconds, times});
    } else {
      same->seconds += times * price.seconds;
      same->times += times;
    }
  }
  std::ranges::stable_sort(list, std::greater{}, &Spent::seconds);
  return list;
}

nlohmann::ordered_json spent_json(const Spent& item) {
  return {{"region", item.launch->region},
          {"op", item.launch->op},
          {"runs", item.launch->what},
          {"times_a_step", item.times},
          {"seconds", item.price.seconds},
          {"seconds_a_step", item.seconds},
          {"bound", plan::name_of(item.price.bound)}};
}

std::string choice_words(const Plan& plan) {
  return fmt::format("micro_batch {}, loss_chunk {}, recompute {}, shard {}", plan.choice.micro_batch,
                     plan.choice.loss_chunk, chosen(plan, "memory.recompute"), chosen(plan, "parallel.shard"));
}

nlohmann::ordered_json choice_json(const Plan& plan) {
  return {{"micro_batch", plan.choice.micro_batch},
          {"loss_chunk", plan.choice.loss_chunk},
          {"recompute", chosen(plan, "memory.recompute")},
          {"shard", chosen(plan, "parallel.shard")}};
}

std::string human_seconds(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", 1e6 * seconds);
  if (seconds < 1) return fmt::format("{:.1f} ms", 1e3 * seconds);
  if (seconds < 120) return fmt::format("{:.2f} s", seconds);
  if (seconds < 7200) return fmt::format("{:.1f} min", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{:.1f} h", seconds / 3600);
  return fmt::format("{:.1f} days", seconds / 86400);
}

std::string time_text(const Plan& plan) {
  const plan::StepTime& time = plan.cost.time;
  std::string out = fmt::format("time, predicted for {}: {} a step, {:.0f} tokens/s, MFU {:.1f}%; {} steps take {}\n",
                                plan.device.name, human_seconds(time.seconds), tokens_per_second(plan), 100 * mfu(plan),
                                plan.spec.own_steps(), human_seconds(run_seconds(plan)));
  if (time.exposed_seconds > 0)
    out += fmt::format("  in {} of a step it waits for other ranks, with nothing left to overlap\n",
                       human_seconds(time.exposed_seconds));
  out += "  " + choice_words(plan) + "\n";
  for (const plan::Alternative& other : plan.alternatives)
    out += fmt::format("  {:+.1f} ms, {} with {}\n", 1e3 * (other.seconds - time.seconds),
                       signed_bytes(static_cast<double>(other.bytes) - static_cast<double>(plan.layout.bytes)),
                       differences(plan::chosen_spec(plan), other.spec));
  const std::vector<Spent> list = spent(plan);
  out += fmt::format("  {:>10} {:>6}  {:<26} {:<34} {:>7}  {}\n", "a step", "", "region", "runs", "times", "bound by");
  for (std::size_t i = 0; i < std::min(kShown, list.size()); ++i)
    out += fmt::format("  {:>10} {:>5.1f}%  {:<26} {:<34} {:>7.0f}  {}\n", human_seconds(list[i].seconds),
                       100 * list[i].seconds / time.seconds, list[i].launch->region, list[i].launch->what,
                       list[i].times, plan::name_of(list[i].price.bound));
  return out;
}

std::string cost_text(const Plan& plan, double price) {
  const double hours = run_seconds(plan) / 3600 * static_cast<double>(plan.spec.parallel.world_size);
  return fmt::format(
      "cost: {:.2f} device-hours, {:.2f} at {:g} each; only steps, without evaluation, samples and checkpoints\n",
      hours, hours * price, price);
}

void add_time(nlohmann::ordered_json& json, const Plan& plan) {
  using Json = nlohmann::ordered_json;
  json["version"] = 1;
  json["step_seconds"] = plan.cost.time.seconds;
  json["tokens_per_second"] = tokens_per_second(plan);
  json["mfu"] = mfu(plan);
  json["run_seconds"] = run_seconds(plan);
  json["choice"] = choice_json(plan);
  Json others = Json::array();
  for (const plan::Alternative& other : plan.alternatives)
    others.push_back({{"micro_batch", other.spec.batch.micro_batch},
                      {"loss_chunk", other.spec.memory.loss_chunk},
                      {"recompute", spec::recompute_text(other.spec.memory.recompute)},
                      {"shard", spec::text_of("parallel.shard", other.spec)},
                      {"step_seconds", other.seconds},
                      {"arena_bytes", other.bytes}});
  json["alternatives"] = others;
  Json figures = Json::object();
  for (const auto& [figure, value] : plan.device.figures)
    figures[devices::name_of(figure)] = {{"value", value.value}, {"from", value.from}};
  json["device"] = {{"name", plan.device.name}, {"figures", figures}};
  Json list = Json::array();
  for (const Spent& item : spent(plan)) list.push_back(spent_json(item));
  json["time"] = {{"compute_seconds", plan.cost.time.compute_seconds},
                  {"exposed_seconds", plan.cost.time.exposed_seconds},
                  {"launches", list}};
}

std::string explain_text(const Plan& plan, const std::string& name) {
  std::string out;
  std::set<std::string> names;
  for (const plan::Launch& launch : plan.launches) {
    if (!launch.own_times()) continue;
    names.insert({launch.op, launch.what});
    if (!is_named(launch, name)) continue;
    std::string formula;
    const plan::Price price = plan::price(plan, launch, &formula);
    out += fmt::format("{}: {} ({}), {} times {}, bound by {}\n", launch.region, launch.op, launch.what,
                       launch.own_times(), launch.per_step ? "a step" : "a micro-batch", plan::name_of(price.bound));
    for (std::size_t begin = 0; begin < formula.size();) {
      const std::size_t end = formula.find('\n', begin);
      out += "  " + formula.substr(begin, end - begin) + "\n";
      begin = end + 1;
    }
  }
  if (!out.empty()) {
    out += fmt::format("\nfigures of {}:\n", plan.device.name);
    for (const auto& [figure, value] : plan.device.figures)
      out += fmt::format("  {:<24} {:>10.4g}  {}\n", devices::name_of(figure), value.value, value.from);
    return out;
  }
  const std::string meant = spec::did_you_mean(name, {names.begin(), names.end()});
  throw Failure(Exit::usage, fmt::format("--explain: a step of this spec has no op or kernel '{}'. {}", name,
                                         meant.empty() ? fmt::format("There are {}", fmt::join(names, ", ")) : meant));
}

}  // namespace llmc::report
