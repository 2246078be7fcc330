// Builds a folder, such as a data set's, that appears complete or not at all.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "files/durable_file.h"

namespace llmc::data {

/// File of a pending folder that its process has locked, so that processes of other machines and containers, whose ids
/// say nothing here, know that it runs.
inline constexpr const char* kWriterLock = "writer.lock";

/// A folder next to the final one, so that a rename stays inside one file system. It is removed with its contents
/// unless published, also if INT, TERM or HUP ends the process, unless it ignores the signal; but one with a file
/// `kept` stays. Creating one removes those of killed processes, and takes over one of the same user that contains a
/// file `kept`.
class PendingFolder {
 public:
  /// Called with each entry of an existing folder of that name; throws if the entry must stay.
  using Check = std::function<void(const std::filesystem::path&)>;

  /// Throws Failure(writer.exit) unless `target` is a new folder, an empty one, or one that `check` accepts.
  /// `kept`: empty for none. Also throws if another process has the same id and writes.
  PendingFolder(const std::filesystem::path& target, const Writer& writer, Check check, std::string kept = {});
  ~PendingFolder();
  PendingFolder(const PendingFolder&) = delete;
  PendingFolder& operator=(const PendingFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Whether it was taken over from a killed process.
  bool taken_over() const { return taken_over_; }

  /// Renames the folder to its final name, replacing an existing one. Then removes the file `kept` from it.
  void publish();

 private:
  /// Closes a descriptor, and with it drops its lock.
  class Lock {
   public:
    explicit Lock(int file = -1) : file_(file) {}
    Lock(Lock&& other) noexcept : file_(other.file_) { other.file_ = -1; }
    Lock& operator=(Lock&& other) noexcept;
    ~Lock();
    explicit operator bool() const { return file_ >= 0; }

   private:
    int file_;
  };

  void check_target() const;
  bool holds_kept(const std::filesystem::path& folder) const;
  [[noreturn]] void throw_in_use(const std::filesystem::path& folder) const;
  /// Removes folders of killed processes, but renames one with the file `kept` to path_.
  void take_over_or_remove_orphans();
  void take_over_or_remove(const std::filesystem::path& entry, pid_t process);
  void watch();
  /// Removes the folder unless it has the file `kept`.
  void remove();

  std::filesystem::path target_, path_;
  Writer writer_;
  std::string kept_;
  Check check_;
  sigset_t ending_;  // signals that remove the folder
  bool taken_over_ = false;
  Lock lock_;
  std::mutex mutex_;  // guards the existence of path_
  std::atomic<bool> done_ = false;
  std::thread watcher_;
};

}  // namespace llmc::data
