// Builds a folder, such as a data set's, that appears complete or not at all.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <mutex>
#include <thread>

#include "files/durable_file.h"

namespace llmc::data {

/// A folder next to the final one, so that a rename stays inside one file system. It is removed with its contents
/// unless published, also if INT, TERM or HUP ends the process. Creating one removes those of killed processes.
class PendingFolder {
 public:
  /// Called with each entry of an existing folder of that name; throws if the entry must stay.
  using Check = std::function<void(const std::filesystem::path&)>;

  /// Throws Failure(writer.exit) unless `target` is a new folder, an empty one, or one that `check` accepts.
  PendingFolder(const std::filesystem::path& target, const Writer& writer, Check check);
  ~PendingFolder();
  PendingFolder(const PendingFolder&) = delete;
  PendingFolder& operator=(const PendingFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Renames the folder to its final name, replacing an existing one.
  void publish();

 private:
  void check_target() const;
  void remove_orphans() const;
  void watch();
  void remove();

  std::filesystem::path target_, path_;
  Writer writer_;
  Check check_;
  std::mutex mutex_;  // guards the existence of path_
  std::atomic<bool> done_ = false;
  std::thread watcher_;
};

}  // namespace llmc::data
