// Builds a folder, such as a data set's, that appears complete or not at all.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "files/durable_file.h"

namespace llmc::data {

/// A folder next to the final one, so that a rename stays inside one file system. It is removed with its contents
/// unless published, also if INT, TERM or HUP ends the process. Creating one removes those of killed processes, but
/// takes over one that contains a file `kept`, which a signal does not remove either.
class PendingFolder {
 public:
  /// Called with each entry of an existing folder of that name; throws if the entry must stay.
  using Check = std::function<void(const std::filesystem::path&)>;

  /// Throws Failure(writer.exit) unless `target` is a new folder, an empty one, or one that `check` accepts.
  /// `kept`: empty for none.
  PendingFolder(const std::filesystem::path& target, const Writer& writer, Check check, std::string kept = {});
  ~PendingFolder();
  PendingFolder(const PendingFolder&) = delete;
  PendingFolder& operator=(const PendingFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Whether it was taken over from a killed process.
  bool taken_over() const { return taken_over_; }

  /// Renames the folder to its final name, replacing an existing one.
  void publish();

 private:
  void check_target() const;
  /// Removes folders of killed processes, but renames one with the file `kept` to path_.
  void look_after_orphans();
  void watch();
  void remove();

  std::filesystem::path target_, path_;
  Writer writer_;
  std::string kept_;
  Check check_;
  bool taken_over_ = false;
  std::mutex mutex_;  // guards the existence of path_
  std::atomic<bool> done_ = false;
  std::thread watcher_;
};

}  // namespace llmc::data
