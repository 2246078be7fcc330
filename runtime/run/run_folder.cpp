#include "run/run_folder.h"

#include <sys/stat.h>

#include <cerrno>
#include <stdexcept>

#include "checkpoint/manifest.h"
#include "checkpoint/retention.h"
#include "error.h"
#include "files/atomic_directory.h"
#include "files/durable_file.h"
#include "run/run_id.h"
#include "run/saved_mark.h"
#include "run/set_aside.h"
#include "spec/fingerprint.h"
#include "spec/values.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;

constexpr char kOtherFolder[] = "choose another --run";  // than the one that is locked

/// The folder `state`, which the lock lies in, is made first.
FolderLock lock_folder(const fs::path& directory, const Log& log) {
  make_directories(directory / "state");
  return FolderLock(directory, kOtherFolder, log);
}

fs::path events_folder(const fs::path& directory) { return directory / "tensorboard"; }

}  // namespace

bool RunFolder::holds_run(const fs::path& directory) { return fs::exists(directory / "state" / "model"); }

void RunFolder::check_model(const fs::path& directory, const spec::Spec& spec) {
  if (!holds_run(directory)) return;
  std::string theirs = read_small_file(directory / "state" / "model");
  if (!theirs.empty() && theirs.back() == '\n') theirs.pop_back();
  const std::string ours = spec::model_fingerprint(spec);
  if (theirs == ours) return;
  std::string keys;
  try {
    if (const auto text = spec_yaml(directory)) keys = spec::model_changes(spec::read_values(*text, "").spec, spec);
  } catch (const std::invalid_argument&) {  // the fingerprints say enough
  }
  throw Failure(Exit::checkpoint,
                "run folder '" + fs::absolute(directory).lexically_normal().string() +
                    "' holds a run of another model: " + (keys.empty() ? "'" + theirs + "' -> '" + ours + "'" : keys) +
                    "; choose another --run");
}

std::optional<std::string> RunFolder::spec_yaml(const fs::path& directory) {
  if (!fs::exists(directory / "spec.yaml")) return std::nullopt;
  return read_small_file(directory / "spec.yaml");
}

RunFolder::RunFolder(const fs::path& directory, const spec::Spec& spec, Log log)
    : directory_(fs::absolute(directory).lexically_normal()),
      log_(std::move(log)),
      model_(spec::model_fingerprint(spec) + "\n"),
      lock_(lock_folder(directory_, log_)) {
  const fs::path state = directory_ / "state";
  if (fs::exists(state / "model")) {
    check_model(directory_, spec);
  } else {
    // The fingerprint comes first, so files of ours without one belong to somebody else.
    for (const char* name :
         {"spec.yaml", "plan.json", "history.jsonl", "metrics.jsonl", "samples.jsonl", "checkpoints"})
      if (fs::exists(directory_ / name))
        throw Failure(Exit::checkpoint, "'" + directory_.string() + "' holds a '" + name +
                                            "' but is no run folder of this version; choose another --run");
    write_file_atomically(state / "model", model_);
  }
  id_ = run_id(directory_);
  if (id_.empty()) write_run_id(directory_, id_ = draw_run_id());
  remove_stale_directories(checkpoints_directory(directory_), kCheckpointPrefix);
  // Of a folder that an older llmc saved in, or whose trainer was killed before it noted that.
  if (const auto checkpoints = list_checkpoints(directory_); !checkpoints.empty() && !saved_step(directory_))
    note_saved(checkpoints.back().step);
}

std::string RunFolder::history(const fs::path& directory) {
  const fs::path path = directory / "history.jsonl";
  return fs::exists(path) ? read_small_file(path, std::uint64_t{1} << 30) : std::string();
}

void RunFolder::start(std::string_view spec_yaml, std::string_view plan_json, std::string_view history_line,
                      std::int64_t step) {
  if (step == 0) set_logs_aside(directory_, log_);
  for (const char* name : {"metrics.jsonl", "samples.jsonl"}) truncate_lines_after(directory_ / name, step, log_);
  cut_events_after(events_folder(directory_), step, log_);
  step_ = step;
  spec_yaml_ = spec_yaml;
  plan_json_ = plan_json;
  history_line_ = history_line;
  write_start();
}

void RunFolder::go_back(std::string_view history_line, std::int64_t step) {
  start(std::string(spec_yaml_), std::string(plan_json_), history_line, step);
}

void RunFolder::write_start() {
  metrics_ = std::make_unique<JsonLines>(directory_ / "metrics.jsonl");
  samples_ = std::make_unique<JsonLines>(directory_ / "samples.jsonl");
  events_ = std::make_unique<EventFile>(events_folder(directory_), step_);
  // The line comes first: what spec.yaml says has always been told.
  JsonLines(directory_ / "history.jsonl").append(history_line_);
  replace_where_different(directory_ / "spec.yaml", spec_yaml_);
  replace_where_different(directory_ / "plan.json", plan_json_);
}

bool RunFolder::renew() {
  const fs::path state = directory_ / "state";
  struct stat there{};
  if (::stat((state / "lock").c_str(), &there) == 0) {
    if (lock_.holds(there)) return false;
    // Some network file systems number a file anew; the start that was noted last is this one's or not.
    if (history().ends_with(history_line_ + "\n")) return false;
    throw Failure(Exit::checkpoint, "'" + directory_.string() +
                                        "' was removed while this run was training, and another run was started in it");
  }
  // Else the file system is in trouble, or somebody removed the lock alone: the save will show which.
  if (errno != ENOENT || fs::exists(state / "model")) return false;
  lock_ = lock_folder(directory_, log_);
  write_file_atomically(state / "model", model_);
  write_run_id(directory_, id_);
  write_start();
  return true;
}

void RunFolder::note_saved(std::int64_t step) { llmc::note_saved(directory_, step); }

void RunFolder::append_metrics(std::string_view json) { metrics_->append(json); }
void RunFolder::append_sample(std::string_view json) { samples_->append(json); }

}  // namespace llmc
