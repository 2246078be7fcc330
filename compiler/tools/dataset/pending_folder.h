// A folder while it is made, such as that of a data set: it appears whole, or not at all.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <mutex>
#include <thread>

#include "files/durable_file.h"

namespace llmc::data {

/// A folder beside the final one, so that a rename stays inside one file system. Gone with everything in it unless
/// published: also when INT, TERM or HUP ends the process, and those of killed processes when the next one is made.
class PendingFolder {
 public:
  /// Called with what lies in a folder that has the name already; throws where that must stay.
  using Check = std::function<void(const std::filesystem::path&)>;

  /// Throws Failure(writer.exit) where `target` is anything but a new folder or one that is empty or that `check` lets
  /// go.
  PendingFolder(const std::filesystem::path& target, const Writer& writer, Check check);
  ~PendingFolder();
  PendingFolder(const PendingFolder&) = delete;
  PendingFolder& operator=(const PendingFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Gives the folder its name, in place of the one that had it.
  void publish();

 private:
  void check_target() const;
  void remove_orphans() const;
  void watch();
  void remove();

  std::filesystem::path target_, path_;
  Writer writer_;
  Check check_;
  std::mutex mutex_;  // of path_'s existence
  std::atomic<bool> done_ = false;
  std::thread watcher_;
};

}  // namespace llmc::data
