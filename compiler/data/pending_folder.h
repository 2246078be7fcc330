// The folder of a data set while it is made: it appears whole, or not at all.
#pragma once

#include <atomic>
#include <filesystem>
#include <mutex>
#include <thread>

namespace llmc::data {

/// A folder beside the final one, so that a rename stays inside one file system. Gone with everything in it unless
/// published: also when INT, TERM or HUP ends the process, and those of killed processes when the next one is made.
class PendingFolder {
 public:
  /// Throws Failure(Exit::data) where `target` is anything but a new or an empty folder, or, with `replace`, a data
  /// set.
  PendingFolder(const std::filesystem::path& target, bool replace);
  ~PendingFolder();
  PendingFolder(const PendingFolder&) = delete;
  PendingFolder& operator=(const PendingFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Gives the folder its name, in place of the data set that had it.
  void publish();

 private:
  void check_target() const;
  void remove_orphans() const;
  void watch();
  void remove();

  std::filesystem::path target_, path_;
  bool replace_;
  std::mutex mutex_;  // of path_'s existence
  std::atomic<bool> done_ = false;
  std::thread watcher_;
};

}  // namespace llmc::data
