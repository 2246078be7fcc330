#include "compiler/tools/runs/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <string_view>
#include <vector>

#include "compiler/tools/page/frame.h"
#include "compiler/tools/runs/page_files.h"
#include "files/disk.h"
#include "spec/fingerprint.h"
#include "spec/schema/schema.h"

namespace llmc::runs {

namespace {

namespace fs = std::filesystem;
using Object = nlohmann::ordered_json;

constexpr std::size_t kSampleSteps = 100;  // of a run, whose samples are in the page

Object finite(double number) { return std::isfinite(number) ? Object(number) : Object(); }

/// Returns the runs' paths without the folders that all lie in.
std::vector<std::string> short_names(std::span<const Record> runs) {
  std::vector<fs::path> paths;
  for (const Record& run : runs) paths.push_back(disk::canonical_if_known(run.summary.path));
  fs::path common = paths.front().parent_path();
  for (const fs::path& path : paths)
    while (common != common.root_path() &&
           (path == common || path.lexically_relative(common).string().starts_with("..")))
      common = common.parent_path();
  std::vector<std::string> names;
  for (const fs::path& path : paths) names.push_back(path.lexically_relative(common).string());
  return names;
}

Object columns(std::span<const MetricsLine> lines) {
  Object all = Object::object();
  const auto column = [&](const char* key, const auto& value_of) {
    Object& values = all[key] = Object::array();
    for (const MetricsLine& line : lines) values.push_back(value_of(line));
  };
  column("step", [](const MetricsLine& line) { return line.step; });
  column("loss", [](const MetricsLine& line) { return finite(line.loss); });
  column("lr", [](const MetricsLine& line) { return finite(line.lr); });
  column("grad_norm", [](const MetricsLine& line) { return finite(line.grad_norm); });
  column("tokens", [](const MetricsLine& line) { return line.tokens; });
  column("tokens_per_second", [](const MetricsLine& line) { return finite(line.tokens_per_second); });
  column("seconds", [](const MetricsLine& line) { return finite(line.seconds); });
  column("time", [](const MetricsLine& line) { return line.time; });
  for (std::size_t i = 0; i < kMeasures.size(); ++i)
    if (std::ranges::any_of(lines, [i](const MetricsLine& line) { return std::isfinite(line.measures[i]); }))
      column(kMeasures[i], [i](const MetricsLine& line) { return finite(line.measures[i]); });
  return all;
}

/// Returns {key: {"step": [...], "value": [...]}} of values that only some lines have.
Object sometimes(std::span<const MetricsLine> lines) {
  Object all = Object::object();
  for (const MetricsLine& line : lines)
    for (const auto& [key, value] : line.sometimes) {
      all[key]["step"].push_back(line.step);
      all[key]["value"].push_back(finite(value));
    }
  return all;
}

/// Returns the samples of kSampleSteps evenly spaced steps, and of the last step.
Object few_samples(const Record& run) {
  std::vector<std::int64_t> steps;
  for (const Object& sample : run.samples)
    if (const auto step = sample["step"].get<std::int64_t>(); steps.empty() || steps.back() != step)
      steps.push_back(step);
  const std::size_t stride = (steps.size() + kSampleSteps - 1) / kSampleSteps;
  std::set<std::int64_t> kept;
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (i % stride == 0 || i + 1 == steps.size()) kept.insert(steps[i]);
  Object samples = Object::array();
  for (const Object& sample : run.samples)
    if (kept.count(sample["step"].get<std::int64_t>())) samples.push_back(sample);
  return samples;
}

/// Returns the part of plan.json that is shown; null if there is none.
Object plan_of(const Record& run) {
  if (run.plan.is_null()) return nullptr;
  Object plan = Object::object();
  for (const char* key :
       {"fingerprint", "parameters", "target", "compute", "batch", "recompute", "loss_chunk", "memory"})
    if (const auto at = run.plan.find(key); at != run.plan.end()) plan[key] = *at;
  if (plan.contains("memory") && plan["memory"].is_object()) plan["memory"].erase("buffers");
  return plan;
}

Object run_object(const Record& run, const std::string& shown, std::size_t points) {
  const std::vector<MetricsLine> lines = thinned(run.lines, points);
  Object skipped = Object::array(), outliers = Object::array();
  for (const MetricsLine& line : lines) {
    if (!line.skipped.empty())
      skipped.push_back({{"step", line.step}, {"samples", line.skipped}, {"reason", line.skip_reason}});
    if (line.loss_is_outlier) outliers.push_back({{"step", line.step}, {"of", "loss"}});
    if (line.grad_norm_is_outlier) outliers.push_back({{"step", line.step}, {"of", "grad_norm"}});
  }
  const Summary& summary = run.summary;
  return {{"name", shown},
          {"state", name(summary.state)},
          {"problem", summary.problem.empty() ? Object() : Object(summary.problem)},
          {"step", summary.step},
          {"steps", summary.steps ? Object(summary.steps) : Object()},
          {"loss", summary.loss ? finite(*summary.loss) : Object()},
          {"val_loss", summary.val_loss ? finite(*summary.val_loss) : Object()},
          {"tokens_per_second", summary.tokens_per_second ? finite(*summary.tokens_per_second) : Object()},
          {"started", summary.started},
          {"lines_of_run", run.lines.size()},
          {"lines", columns(lines)},
          {"sometimes", sometimes(lines)},
          {"skipped", skipped},
          {"outliers", outliers},
          {"samples", few_samples(run)},
          // Without a tokenizer, prompts and samples are token ids separated by blanks.
          {"after_prompt", run.values && run.values->spec.data.tokenizer.empty() ? " " : ""},
          {"starts", run.starts},
          {"plan", plan_of(run)}};
}

/// Returns the keys that differ between runs, each with the value of every run. Null if a run does not read the key, or
/// if its spec cannot be read.
Object different_keys(std::span<const Record> runs) {
  Object rows = Object::array();
  for (const spec::Key& key : spec::keys()) {
    Object values = Object::array();
    std::set<std::string> distinct;
    for (const Record& run : runs) {
      const bool read = run.values && spec::applies(key, run.values->spec);
      const std::string text = read ? spec::value_text(key, key.get(run.values->spec)) : "";
      values.push_back(read ? Object(text) : Object());
      if (run.values) distinct.insert(read ? "=" + text : "");
    }
    if (distinct.size() > 1) rows.push_back({{"key", key.path}, {"values", values}});
  }
  return rows;
}

}  // namespace

std::string page(std::span<const Record> runs, std::size_t points, Object sweeps) {
  const std::vector<std::string> names = short_names(runs);
  Object document = {{"runs", Object::array()}, {"keys", different_keys(runs)}, {"sweeps", std::move(sweeps)}};
  for (std::size_t i = 0; i < runs.size(); ++i) document["runs"].push_back(run_object(runs[i], names[i], points));
  return llmc::page::frame({.title = "llmc report",
                            .style = "",
                            .body = files::kBody,
                            .scripts = {files::kCharts, files::kSweep, files::kPage},
                            .data = std::move(document)});
}

}  // namespace llmc::runs
