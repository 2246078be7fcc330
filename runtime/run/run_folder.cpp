#include "run/run_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/retention.h"
#include "error.h"
#include "files/atomic_directory.h"
#include "files/disk.h"
#include "files/durable_file.h"
#include "run/model_change.h"
#include "run/run_id.h"
#include "run/saved_mark.h"
#include "run/set_aside.h"
#include "spec/fingerprint.h"
#include "spec/source.h"
#include "spec/values.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;

constexpr char kOtherFolder[] = "choose another --run";  // instead of the locked one

/// Files that may exist in a folder before its first run: output of a shell or a scheduler, and leftovers of a killed
/// start.
bool may_come_first(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string(), extension = entry.path().extension().string();
  std::error_code ignored;
  if (name == "state") return fs::symlink_status(entry, ignored).type() == fs::file_type::directory;
  return name.starts_with('.') || (entry.is_regular_file(ignored) && (extension == ".log" || extension == ".out" ||
                                                                      extension == ".err" || extension == ".txt"));
}

/// Names of all other files.
std::vector<std::string> other_files(const fs::path& directory) {
  std::vector<std::string> others;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error))
    if (!may_come_first(*at)) others.push_back(at->path().filename().string());
  return others;
}

/// Throws if `directory` holds no run but holds other files.
void check_new_folder(const fs::path& directory) {
  if (RunFolder::holds_run(directory)) return;
  std::vector<std::string> others = other_files(directory);
  if (others.empty()) return;
  // The run's fingerprint is written first, so these names without a fingerprint belong to another program.
  for (const char* name : {"spec.yaml", "plan.json", "history.jsonl", "metrics.jsonl", "samples.jsonl", "checkpoints"})
    if (std::ranges::find(others, name) != others.end())
      throw Failure(Exit::checkpoint, "'" + directory.string() + "' has a '" + name +
                                          "' but is not a run folder of this version. Choose another --run");
  std::ranges::sort(others);
  throw Failure(Exit::checkpoint, "'" + directory.string() + "' has no run in it, but " +
                                      spec::in_quotes(others.front()) + (others.size() > 1 ? " and more" : "") +
                                      ". Choose a folder for only this run, such as --run runs/NAME");
}

/// Absolute path of a folder that holds a run or may get one.
fs::path checked(const fs::path& directory) {
  check_new_folder(directory);
  return disk::absolute(directory, Exit::checkpoint).lexically_normal();
}

/// Those that do not exist yet of `directory` and its parents, innermost first.
std::vector<fs::path> missing_directories(fs::path directory) {
  std::vector<fs::path> missing;
  std::error_code error;
  for (; fs::status(directory, error).type() == fs::file_type::not_found; directory = directory.parent_path())
    missing.push_back(directory);
  return missing;
}

/// Creates the folder `state` first, because the lock lies in it.
FolderLock lock_folder(const fs::path& directory, const Log& log) {
  make_directories(directory / "state");
  return FolderLock(directory, kOtherFolder, log);
}

fs::path events_folder(const fs::path& directory) { return directory / "tensorboard"; }

}  // namespace

bool RunFolder::holds_run(const fs::path& directory) {
  return disk::exists(directory / "state" / "model", Exit::checkpoint);
}

void RunFolder::check_model(const fs::path& directory, const spec::Spec& spec,
                            const std::vector<std::string>& allowed) {
  if (!holds_run(directory)) return check_new_folder(directory);
  std::string theirs = read_small_file(directory / "state" / "model");
  if (!theirs.empty() && theirs.back() == '\n') theirs.pop_back();
  const std::string ours = spec::model_fingerprint(spec);
  if (theirs == ours) return;
  spec::Spec before = spec;
  try {
    if (const auto text = spec_yaml(directory)) before = spec::read_values(*text, "").spec;
  } catch (const std::invalid_argument&) {  // the fingerprints suffice
  }
  const std::string refusal =
      model_refusal(before, spec, allowed, "'" + theirs + "' -> '" + ours + "'", "Choose another --run");
  if (refusal.empty()) return;
  throw Failure(Exit::checkpoint, "run folder '" +
                                      disk::absolute(directory, Exit::checkpoint).lexically_normal().string() +
                                      "' has a run of another model: " + refusal);
}

std::optional<std::string> RunFolder::spec_yaml(const fs::path& directory) {
  if (!disk::exists(directory / "spec.yaml", Exit::checkpoint)) return std::nullopt;
  return read_small_file(directory / "spec.yaml");
}

RunFolder::RunFolder(const fs::path& directory, const spec::Spec& spec, Log log,
                     const std::vector<std::string>& allowed)
    : directory_(checked(directory)),
      created_(missing_directories(directory_ / "state")),
      log_(std::move(log)),
      model_(spec::model_fingerprint(spec) + "\n"),
      lock_(lock_folder(directory_, log_)) {
  const fs::path state = directory_ / "state";
  if (disk::exists(state / "model", Exit::checkpoint)) {
    check_model(directory_, spec, allowed);
  } else {
    is_new_ = true;  // known only under the lock
    write_file_atomically(state / "model", model_);
  }
  id_ = run_id(directory_);
  if (id_.empty()) write_run_id(directory_, id_ = draw_run_id());
  remove_stale_directories(checkpoints_directory(directory_), kCheckpointPrefix);
}

RunFolder::~RunFolder() {
  if (!is_new_ || metrics_) return;
  ::rmdir(checkpoints_directory(directory_).c_str());  // made to check that a save can be written
  if (!other_files(directory_).empty()) return;        // the folder would be refused without its fingerprint
  for (const char* name : {"model", "run", "lock"}) ::unlink((directory_ / "state" / name).c_str());
  // Keeps what others wrote meanwhile: only empty directories can be removed.
  for (const fs::path& directory : created_) ::rmdir(directory.c_str());
}

std::string RunFolder::history(const fs::path& directory) {
  const fs::path path = directory / "history.jsonl";
  if (!disk::exists(path, Exit::checkpoint)) return {};
  std::string text = read_small_file(path, std::uint64_t{1} << 30);
  text.resize(text.rfind('\n') + 1);  // npos + 1 is 0
  return text;
}

void RunFolder::start(std::string_view spec_yaml, std::string_view plan_json, std::string_view history_line,
                      std::int64_t step) {
  if (step == 0) set_logs_aside(directory_, log_);
  for (const char* name : {"metrics.jsonl", "samples.jsonl"}) truncate_lines_after(directory_ / name, step, log_);
  cut_events_after(events_folder(directory_), step, log_);
  step_ = step;
  take_values(spec_yaml, plan_json, history_line);
  write_start();
}

void RunFolder::enter_phase(std::string_view spec_yaml, std::string_view plan_json, std::string_view history_line) {
  take_values(spec_yaml, plan_json, history_line);
  if (!is_gone()) write_values();
}

void RunFolder::go_back(std::string_view history_line, std::int64_t step) {
  start(std::string(spec_yaml_), std::string(plan_json_), history_line, step);
}

void RunFolder::take_values(std::string_view spec_yaml, std::string_view plan_json, std::string_view history_line) {
  spec_yaml_ = spec_yaml;
  plan_json_ = plan_json;
  lines_ahead_.emplace_back(history_line);
  written_ = false;
}

void RunFolder::write_start() {
  metrics_ = std::make_unique<JsonLines>(directory_ / "metrics.jsonl");
  samples_ = std::make_unique<JsonLines>(directory_ / "samples.jsonl");
  events_ = std::make_unique<EventFile>(events_folder(directory_), step_);
  // A start that is killed here needs its --allow once more: spec.yaml still has the other model.
  replace_where_different(directory_ / "state" / "model", model_);
  write_values();
}

void RunFolder::write_values() {
  // history.jsonl comes first, so that spec.yaml never describes a start without a line.
  JsonLines history(directory_ / "history.jsonl");
  while (!lines_ahead_.empty()) {
    history.append(lines_ahead_.front());
    last_line_ = std::move(lines_ahead_.front());
    lines_ahead_.erase(lines_ahead_.begin());
  }
  replace_where_different(directory_ / "spec.yaml", spec_yaml_);
  replace_where_different(directory_ / "plan.json", plan_json_);
  written_ = true;
}

bool RunFolder::is_gone() const {
  const fs::path state = directory_ / "state";
  struct stat there{};
  if (::stat((state / "lock").c_str(), &there) == 0) {
    if (lock_.holds(there)) return false;
    // Some network file systems change inode numbers. The last line of the history then shows whether this start still
    // owns the folder.
    if (history().ends_with(last_line_ + "\n")) return false;
    throw Failure(Exit::checkpoint, "'" + directory_.string() +
                                        "' was removed while this run was training, and another run was started in it");
  }
  // Otherwise the file system is failing or somebody removed only the lock; the next save shows which.
  return errno == ENOENT && !disk::exists(state / "model", Exit::checkpoint);
}

bool RunFolder::renew() {
  if (!is_gone()) {
    if (!written_) write_values();
    return false;
  }
  lock_ = lock_folder(directory_, log_);
  write_file_atomically(directory_ / "state" / "model", model_);
  write_run_id(directory_, id_);
  if (lines_ahead_.empty()) lines_ahead_.push_back(last_line_);
  write_start();
  return true;
}

void RunFolder::note_saved(std::int64_t step) { llmc::note_saved(directory_, step); }

void RunFolder::append_metrics(std::string_view json) { metrics_->append(json); }
void RunFolder::append_sample(std::string_view json) { samples_->append(json); }

}  // namespace llmc
