#include "compiler/tools/runs/summary.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"
#include "compiler/tools/runs/reverse_lines.h"
#include "error.h"
#include "files/disk.h"
#include "run/median.h"
#include "run/run_folder.h"
#include "spec/validation_sets.h"
#include "spec/values.h"

namespace llmc::runs {

namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

constexpr std::size_t kRecent = 100;  // steps whose median speed is shown

/// Throws std::runtime_error that names the file.
Json parse_line(const std::string& line, const fs::path& path) {
  Json object = Json::parse(line, nullptr, false);
  if (!object.is_object() || !object.contains("step") || !object["step"].is_number_integer())
    throw std::runtime_error(
        fmt::format("'{}' has a line that is not a JSON object with a step", path.filename().string()));
  return object;
}

std::optional<double> number(const Json& object, const char* key) {
  const auto at = object.find(key);
  if (at == object.end()) return std::nullopt;
  if (at->is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (!at->is_number()) return std::nullopt;
  return at->get<double>();
}

/// Passes over lines that cannot be parsed, and throws afterwards. `val_loss`: the key of the leading validation loss.
void read_metrics(Summary& run, const std::string& val_loss) {
  const fs::path path = run.path / "metrics.jsonl";
  ReverseLines lines(path);
  std::vector<double> speeds;
  std::optional<std::runtime_error> wrong;
  bool last = true;
  for (std::size_t count = 0;; ++count) {
    const std::optional<std::string> line = lines.next();
    if (!line) break;
    if (count >= kRecent && (run.val_loss || line->find("\"" + val_loss + "\"") == std::string::npos)) {
      if (run.val_loss) break;
      continue;
    }
    Json object;
    try {
      object = parse_line(*line, path);
    } catch (const std::runtime_error& error) {
      wrong = error;
      continue;
    }
    if (std::exchange(last, false)) {
      run.step = object["step"].get<std::int64_t>();
      run.loss = number(object, "loss");
    }
    if (const std::optional<double> speed = number(object, "tokens_per_second");
        speed && std::isfinite(*speed) && count < kRecent)
      speeds.push_back(*speed);
    if (!run.val_loss && (run.val_loss = number(object, val_loss.c_str())))
      run.val_step = object["step"].get<std::int64_t>();
  }
  if (!speeds.empty()) run.tokens_per_second = median_of(std::move(speeds));
  if (wrong) throw *wrong;
}

void read_history(Summary& run) {
  const fs::path path = run.path / "history.jsonl";
  ReverseLines lines(path);
  while (const std::optional<std::string> line = lines.next()) {
    const Json object = parse_line(*line, path);
    if (object.contains("rollback") || object.contains("same_start")) continue;  // within a start
    const auto time = object.find("time");
    if (time != object.end() && time->is_string()) run.started = time->get<std::string>();
    return;
  }
}

void read_spec(Summary& run, std::string& val_loss) try {
  if (const std::optional<std::string> text = RunFolder::spec_yaml(run.path)) {
    const spec::Spec spec = spec::read_values(*text, "spec.yaml").spec;
    run.steps = spec.schedule.steps;
    val_loss += spec::metric_suffix(spec::leading_set(spec));
  } else if (disk::exists(run.path / "history.jsonl", Exit::checkpoint)) {
    throw std::runtime_error("it does not exist");
  }
} catch (const std::exception& error) {
  throw std::runtime_error(fmt::format("'spec.yaml': {}", error.what()));
}

RunState state_of(const Summary& run, bool running, std::int64_t saved) {
  if (running) return RunState::running;
  if (run.step == 0 || saved != run.step) return RunState::failed;
  return run.steps > 0 && run.step >= run.steps ? RunState::finished : RunState::stopped;
}

}  // namespace

namespace {

/// Returns why this process cannot read a folder or its run's files; empty if it can.
std::string why_unreadable(const fs::path& folder) try {
  if (!RunFolder::holds_run(folder)) disk::entries(folder, Exit::checkpoint);
  for (const char* file : {"spec.yaml", "history.jsonl", "metrics.jsonl"})
    if (disk::exists(folder / file, Exit::checkpoint) && ::access((folder / file).c_str(), R_OK) != 0)
      return fmt::format("cannot read '{}': {}", file, std::strerror(errno));
  return {};
} catch (const Failure& failure) {
  return failure.what();
}

}  // namespace

const char* name(RunState state) {
  switch (state) {
    case RunState::running: return "running";
    case RunState::finished: return "finished";
    case RunState::stopped: return "stopped";
    case RunState::failed: return "failed";
    case RunState::damaged: return "damaged";
    case RunState::unreadable: return "unreadable";
  }
  return "";
}

Summary summarise(const fs::path& path) {
  Summary run;
  run.path = path;
  run.problem = why_unreadable(path);
  if (!run.problem.empty()) {
    run.state = RunState::unreadable;
    return run;
  }
  std::int64_t saved = 0;
  const auto read = [&](const auto& part) {
    try {
      part();
    } catch (const std::exception& error) {
      run.problem += (run.problem.empty() ? "" : "; ") + std::string(error.what());
    }
  };
  std::string val_loss = "val_loss";
  read([&] { read_spec(run, val_loss); });
  read([&] { read_history(run); });
  read([&] { read_metrics(run, val_loss); });
  read([&] {
    for (const CheckpointEntry& checkpoint : list_checkpoints(path))
      if (has_manifest(checkpoint.path)) saved = checkpoint.step;
    run.step = std::max(run.step, saved);
  });
  read([&] { run.state = state_of(run, FolderLock::is_held(path), saved); });
  if (!run.problem.empty() && run.state != RunState::running) run.state = RunState::damaged;
  return run;
}

namespace {

/// Whether there is a run in `folder` or below it.
bool look_into(const fs::path& folder, int depth, FoundRuns& found) {
  std::error_code gone;
  if (!why_unreadable(folder).empty() || RunFolder::holds_run(folder)) {
    found.runs.push_back(folder);
    return true;
  }
  if (depth > 0 && fs::is_symlink(folder, gone)) return false;
  std::vector<fs::path> folders;
  for (const fs::path& entry : disk::entries(folder, Exit::checkpoint))
    if (fs::is_directory(entry, gone) && !entry.filename().string().starts_with('.')) folders.push_back(entry);
  if (depth == kDeepest) {
    found.deeper |= !folders.empty();
    return false;
  }
  FoundRuns below;
  for (const fs::path& each : folders)
    if (!look_into(each, depth + 1, below)) below.others.push_back(each);
  found.deeper |= below.deeper;
  if (depth > 0 && below.runs.empty()) return false;  // the folder is listed once, instead of each folder in it
  found.runs.insert(found.runs.end(), below.runs.begin(), below.runs.end());
  found.others.insert(found.others.end(), below.others.begin(), below.others.end());
  return !below.runs.empty();
}

}  // namespace

FoundRuns find_runs(const fs::path& folder) {
  std::error_code error;
  fs::directory_iterator(folder, error);
  if (error)
    throw Failure(Exit::checkpoint,
                  fmt::format("cannot read the folder '{}': {}. Name one with runs in it, such as specs/runs",
                              folder.string(), error.message()));
  FoundRuns found;
  look_into(folder, 0, found);
  return found;
}

}  // namespace llmc::runs
