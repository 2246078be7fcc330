// The folder of one run: who may write to it, what runs in it, and its growing logs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "checkpoint/json_lines.h"

namespace llmc {

/// Holds the folder's lock while it lives, so that two trainers never share one. On several ranks, rank 0 owns it.
class RunFolder {
 public:
  /// Creates or opens `directory`; writes spec.yaml and plan.json, each atomically, where their text differs.
  /// Throws Failure(checkpoint): another trainer holds the lock; the folder belongs to a spec with another fingerprint
  /// (both are shown); it holds files of a run but no fingerprint; it cannot be written.
  RunFolder(const std::filesystem::path& directory, const std::string& fingerprint, std::string_view spec_yaml,
            std::string_view plan_json, Log log);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::filesystem::path& path() const { return directory_; }

  /// One JSON object, without a line break. Throws Failure(checkpoint); then the file is as before.
  void append_metrics(std::string_view json);
  void append_sample(std::string_view json);

  /// On resume: drops what metrics.jsonl and samples.jsonl say of steps above `step`.
  void truncate_after(std::int64_t step);

 private:
  std::filesystem::path directory_;
  Log log_;
  int lock_ = -1;
  std::unique_ptr<JsonLines> metrics_, samples_;
};

}  // namespace llmc
