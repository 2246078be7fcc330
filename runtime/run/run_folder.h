// Owns the folder of one run: its lock, its spec, and its logs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "run/event_file.h"
#include "run/folder_lock.h"
#include "run/json_lines.h"
#include "spec/spec.h"

namespace llmc {

/// Holds the folder's lock for its lifetime, so that two trainers never share a folder. With several ranks, rank 0 owns
/// it.
class RunFolder {
 public:
  /// Returns whether a run was started in `directory`. Creates nothing.
  static bool holds_run(const std::filesystem::path& directory);

  /// Throws Failure(checkpoint), naming the keys, if `directory` has a run of another model than that of `spec`, or
  /// other files without a run. `allowed`: keys of the model that may differ, see model_change.h.
  static void check_model(const std::filesystem::path& directory, const spec::Spec& spec,
                          const std::vector<std::string>& allowed = {});

  /// Returns the resolved spec of the last start in `directory`; nothing if no run was started.
  static std::optional<std::string> spec_yaml(const std::filesystem::path& directory);

  /// Complete lines of history.jsonl; empty if no run was started. Text after the last line break is the rest of a
  /// start that was killed or found a full disk, and the next start removes it.
  static std::string history(const std::filesystem::path& directory);

  /// Creates or opens `directory` for a run of the model of `spec`. Throws Failure(checkpoint) if another trainer holds
  /// the lock; if the folder has a run of another model, or other files without a run; or if it cannot be written.
  RunFolder(const std::filesystem::path& directory, const spec::Spec& spec, Log log,
            const std::vector<std::string>& allowed = {});
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  /// Removes what the constructor created for a new run if start() was never called.
  ~RunFolder();

  const std::filesystem::path& path() const { return directory_; }
  /// Whether no run was started in the folder before.
  bool is_new() const { return is_new_; }
  /// The run's id, as read by run_id().
  const std::string& id() const { return id_; }
  /// Returns the resolved spec of the last start in this folder; nothing before the first start.
  std::optional<std::string> spec_yaml() const { return spec_yaml(directory_); }
  std::string history() const { return history(directory_); }

  /// Records the spec that runs from now on, after `step` steps. Writes spec.yaml and plan.json atomically if their
  /// text changed. Drops later steps from metrics.jsonl, samples.jsonl and tensorboard/; at step 0 moves these aside.
  /// Appends a line to history.jsonl.
  void start(std::string_view spec_yaml, std::string_view plan_json, std::string_view history_line, std::int64_t step);

  /// Same for a run that rolls back to `step` during training. Call it after start().
  void go_back(std::string_view history_line, std::int64_t step);

  /// Records the spec of a phase that the run passes to without a new start. The logs go on. If it throws
  /// Failure(checkpoint), or the folder was removed, renew() records it.
  void enter_phase(std::string_view spec_yaml, std::string_view plan_json, std::string_view history_line);

  /// Prepares the folder for a checkpoint, whose phase must be in the history. Recreates it with the files of start()
  /// if it was removed during training, and returns whether it was. Its logs are lost. Throws Failure(checkpoint) if it
  /// cannot be written, or if another run was started there.
  bool renew();

  /// Records that a checkpoint of `step` is complete; see saved_step(). Throws Failure(checkpoint).
  void note_saved(std::int64_t step);

  /// Append one JSON object without a line break; after start(). Throw Failure(checkpoint); the file is unchanged then.
  void append_metrics(std::string_view json);
  void append_sample(std::string_view json);
  /// Last line of metrics.jsonl; empty if there is none. Call it after start().
  std::string last_metrics() const { return last_line(directory_ / "metrics.jsonl"); }

  /// Event file of this start; after start().
  EventFile& events() { return *events_; }

 private:
  void take_values(std::string_view spec_yaml, std::string_view plan_json, std::string_view history_line);
  void write_start();
  /// Writes the lines that the history lacks, spec.yaml and plan.json.
  void write_values();
  /// Whether it was removed during training. Throws Failure(checkpoint) if another run was started there.
  bool is_gone() const;

  std::filesystem::path directory_;
  std::vector<std::filesystem::path> created_;  // directories of this start, innermost first
  bool is_new_ = false;                         // see is_new()
  Log log_;
  std::string id_, model_, spec_yaml_, plan_json_;  // as they are written
  std::string last_line_;                           // of the history
  std::vector<std::string> lines_ahead_;            // that the history lacks
  bool written_ = false;                            // whether spec.yaml and plan.json have their text
  FolderLock lock_;
  std::int64_t step_ = 0;  // this start resumes from
  std::unique_ptr<JsonLines> metrics_, samples_;
  std::unique_ptr<EventFile> events_;
};

}  // namespace llmc
