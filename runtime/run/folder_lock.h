// Locks a run folder, so that one process at a time writes to it.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "checkpoint/checkpoint.h"
#include "files/durable_file.h"

namespace llmc {

/// Holds DIRECTORY/state/lock for its lifetime. The kernel releases it when the process is killed.
class FolderLock {
 public:
  /// The folder `state` must exist. Throws Failure(checkpoint) if a trainer holds the lock, with `advice` on how to
  /// avoid waiting; if the folder contains a link (refuse_planted_links()); or if the file cannot be created. On a file
  /// system without locks it warns on `log` and takes no lock, so that training is still possible.
  FolderLock(const std::filesystem::path& directory, const std::string& advice, const Log& log,
             const Writer& writer = kRunWriter);
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) noexcept;

  /// Returns whether a trainer or another writer holds the lock of `directory`, on this machine or, if the file system
  /// shares locks, on another. False on a file system without locks.
  static bool is_held(const std::filesystem::path& directory);

  /// Returns whether the held lock is on this file.
  bool holds(const struct stat& file) const;

 private:
  bool lock(const std::filesystem::path& path, const std::filesystem::path& directory, const std::string& advice,
            const Log& log, const Writer& writer);

  int fd_ = -1;
};

}  // namespace llmc
