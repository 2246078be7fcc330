// The folder of one run: who may write to it, what runs in it, and its growing logs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "run/event_file.h"
#include "run/folder_lock.h"
#include "run/json_lines.h"
#include "spec/spec.h"

namespace llmc {

/// Holds the folder's lock while it lives, so that two trainers never share one. On several ranks, rank 0 owns it.
class RunFolder {
 public:
  /// Whether a run was started in `directory`. Looks, and creates nothing.
  static bool holds_run(const std::filesystem::path& directory);

  /// Throws Failure(checkpoint) that names the keys, where `directory` holds a run of another model than `spec` has; or
  /// other things and no run.
  static void check_model(const std::filesystem::path& directory, const spec::Spec& spec);

  /// What ran in `directory` last; nothing where no run was started.
  static std::optional<std::string> spec_yaml(const std::filesystem::path& directory);

  /// history.jsonl; empty where no run was started.
  static std::string history(const std::filesystem::path& directory);

  /// Creates or opens `directory` for a run of the model of `spec`. Throws Failure(checkpoint): another trainer holds
  /// the lock; the folder holds a run of another model, or other things and no run; it cannot be written.
  RunFolder(const std::filesystem::path& directory, const spec::Spec& spec, Log log);
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::filesystem::path& path() const { return directory_; }
  /// The run's own, as run_id() reads it.
  const std::string& id() const { return id_; }
  /// What ran here last; nothing before the first start.
  std::optional<std::string> spec_yaml() const { return spec_yaml(directory_); }
  std::string history() const { return history(directory_); }

  /// What runs from here on, after `step` steps: writes spec.yaml and plan.json, each atomically, where their text
  /// differs, drops what metrics.jsonl, samples.jsonl and tensorboard/ say of later steps, or from step 0 sets them
  /// aside, and adds a line to history.jsonl.
  void start(std::string_view spec_yaml, std::string_view plan_json, std::string_view history_line, std::int64_t step);

  /// The same for a run that goes back to `step` while it trains; after start().
  void go_back(std::string_view history_line, std::int64_t step);

  /// Makes the folder again, with what start() wrote, where it was removed meanwhile; whether that was so. What had
  /// grown in it is lost. Throws Failure(checkpoint) where it cannot be made, or another run was started in its place.
  bool renew();

  /// Notes that a checkpoint of `step` has appeared; see saved_step(). Throws Failure(checkpoint).
  void note_saved(std::int64_t step);

  /// One JSON object, without a line break; after start(). Throws Failure(checkpoint); then the file is as before.
  void append_metrics(std::string_view json);
  void append_sample(std::string_view json);
  /// Of metrics.jsonl; empty where there is none. After start().
  std::string last_metrics() const { return last_line(directory_ / "metrics.jsonl"); }

  /// The event file of this start; after start().
  EventFile& events() { return *events_; }

 private:
  void write_start();

  std::filesystem::path directory_;
  Log log_;
  std::string id_, model_, spec_yaml_, plan_json_, history_line_;  // as they are written
  FolderLock lock_;
  std::int64_t step_ = 0;  // that this start goes on from
  std::unique_ptr<JsonLines> metrics_, samples_;
  std::unique_ptr<EventFile> events_;
};

}  // namespace llmc
