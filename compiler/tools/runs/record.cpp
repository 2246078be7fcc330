#include "compiler/tools/runs/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <set>
#include <utility>

#include "compiler/tools/runs/outliers.h"
#include "files/disk.h"
#include "run/json_lines.h"
#include "run/median.h"
#include "run/run_folder.h"
#include "spec/values.h"

namespace llmc::runs {

namespace {

using Object = nlohmann::ordered_json;

void add_problem(Record& record, const std::string& problem) {
  std::string& all = record.summary.problem;
  if (all.find(problem) == std::string::npos) all += (all.empty() ? "" : "; ") + problem;
}

/// Calls `take` with each complete line that is an object with a step. Text after the last line break is incomplete and
/// is ignored.
void for_each_line(Record& record, const char* file, const std::function<void(Object&&)>& take) {
  std::ifstream in = disk::open(record.summary.path / file);
  if (!in) return;
  LineReader lines(in);
  std::string line;
  std::int64_t wrong = 0;
  while (lines.next(line)) {
    Object object = Object::parse(line, nullptr, false);
    if (object.is_object() && object.contains("step") && object["step"].is_number_integer())
      take(std::move(object));
    else
      ++wrong;
  }
  if (wrong == 1)
    add_problem(record, fmt::format("a line of '{}' is not a JSON object with a step and is skipped", file));
  if (wrong > 1)
    add_problem(record, fmt::format("{} lines of '{}' are not JSON objects with a step and are skipped", wrong, file));
}

double number_of(const Object& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_number() ? at->get<double>() : std::numeric_limits<double>::quiet_NaN();
}

/// Keys with members of their own in MetricsLine.
const std::set<std::string>& members() {
  static const std::set<std::string> keys = [] {
    std::set<std::string> all = {"step",    "loss",         "lr", "grad_norm", "tokens", "tokens_per_second",
                                 "seconds", "total_seconds"};
    all.insert(kMeasures.begin(), kMeasures.end());
    return all;
  }();
  return keys;
}

void add_ratios(MetricsLine& line, const Object& parameters) {
  std::vector<double> ratios;
  for (const Object& norms : parameters)
    if (norms.is_object())
      if (const double ratio = number_of(norms, "ratio"); std::isfinite(ratio)) ratios.push_back(ratio);
  if (ratios.empty()) return;
  line.sometimes.emplace_back("ratio_median", median_of(ratios));
  line.sometimes.emplace_back("ratio_largest", std::ranges::max(ratios));
}

MetricsLine line_of(const Object& object) {
  MetricsLine line{.step = object["step"].get<std::int64_t>(),
                   .loss = number_of(object, "loss"),
                   .lr = number_of(object, "lr"),
                   .grad_norm = number_of(object, "grad_norm"),
                   .tokens_per_second = number_of(object, "tokens_per_second"),
                   .seconds = number_of(object, "seconds"),
                   .measures = {},
                   .sometimes = {},
                   .skipped = {},
                   .skip_reason = object.value("skip_reason", Object()).is_string() ? object["skip_reason"] : ""};
  for (std::size_t i = 0; i < kMeasures.size(); ++i) line.measures[i] = number_of(object, kMeasures[i]);
  for (const auto& [key, value] : object.items())
    if ((value.is_number() || value.is_null()) && !members().count(key))
      line.sometimes.emplace_back(key, number_of(object, key.c_str()));
  if (const auto parameters = object.find("per_parameter"); parameters != object.end() && parameters->is_object())
    add_ratios(line, *parameters);
  line.evaluated = object.contains("val_loss") || object.contains("evaluation_seconds");
  if (const auto tokens = object.find("tokens"); tokens != object.end() && tokens->is_number_integer())
    line.tokens = tokens->get<std::int64_t>();
  if (const auto skipped = object.find("skipped"); skipped != object.end() && skipped->is_array())
    for (const Object& id : *skipped)
      if (id.is_number_unsigned() || id.is_string()) line.skipped.push_back(id);
  return line;
}

/// Adds up the seconds of all starts. A line belongs to the last start that resumed from a step before it. Each start
/// counts its seconds from 0; a rollback or another phase within it does not.
void add_times(std::vector<MetricsLine>& lines, const std::vector<Object>& starts) {
  std::vector<std::pair<std::int64_t, std::size_t>> by_step;  // step that a start resumes from, its index
  std::size_t clock = 0;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (!starts[i].contains("rollback") && !starts[i].contains("same_start")) clock = i;
    by_step.emplace_back(starts[i]["step"].get<std::int64_t>(), clock);
  }
  std::ranges::sort(by_step);
  double before = 0, last = 0;  // seconds of earlier starts, and of this one up to the last line
  std::size_t next = 0, start = 0;
  for (MetricsLine& line : lines) {
    const std::size_t start_before = start;
    for (; next < by_step.size() && by_step[next].first < line.step; ++next)
      start = std::max(start, by_step[next].second);
    if (start != start_before) before += std::exchange(last, 0);
    if (std::isfinite(line.seconds)) last = line.seconds;
    line.time = before + last;
  }
}

void mark_outliers(std::vector<MetricsLine>& lines) {
  Outliers losses, norms;
  for (MetricsLine& line : lines) {
    line.loss_is_outlier = losses.observe(line.loss);
    line.grad_norm_is_outlier = norms.observe(line.grad_norm);
  }
}

}  // namespace

Record read_record(const std::filesystem::path& run) {
  Record record;
  record.summary = summarise(run);
  for_each_line(record, "history.jsonl", [&](Object&& line) { record.starts.push_back(std::move(line)); });
  for_each_line(record, "samples.jsonl", [&](Object&& line) {
    if (line.value("prompt", Object()).is_string() && line.value("text", Object()).is_string())
      record.samples.push_back(std::move(line));
    else
      add_problem(record, "'samples.jsonl' has samples without a prompt or a text, which are skipped");
  });
  for_each_line(record, "metrics.jsonl", [&](Object&& object) {
    MetricsLine line = line_of(object);
    if (record.lines.empty() || record.lines.back().step < line.step)
      record.lines.push_back(std::move(line));
    else
      add_problem(record, "'metrics.jsonl' has steps that do not ascend, which are skipped");
  });
  add_times(record.lines, record.starts);
  mark_outliers(record.lines);
  if (const std::optional<std::string> plan = disk::text(run / "plan.json")) {
    record.plan = Object::parse(*plan, nullptr, false);
    if (!record.plan.is_object()) add_problem(record, "'plan.json' is not a JSON object");
  }
  if (!record.plan.is_object()) record.plan = nullptr;
  try {  // summarise() has reported errors
    if (const std::optional<std::string> text = RunFolder::spec_yaml(run))
      record.values = spec::read_values(*text, "spec.yaml");
  } catch (const std::exception&) {
  }
  return record;
}

std::vector<MetricsLine> thinned(const std::vector<MetricsLine>& lines, std::size_t points) {
  const std::size_t stride = std::max<std::size_t>(1, (lines.size() + points - 1) / std::max<std::size_t>(points, 1));
  std::vector<MetricsLine> kept;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const MetricsLine& line = lines[i];
    if (i % stride == 0 || i + 1 == lines.size() || line.evaluated || !line.skipped.empty() || line.loss_is_outlier ||
        line.grad_norm_is_outlier)
      kept.push_back(line);
  }
  return kept;
}

}  // namespace llmc::runs
