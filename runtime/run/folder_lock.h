// The lock of a run folder, by which one process at a time writes to it.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "checkpoint/checkpoint.h"
#include "files/durable_file.h"

namespace llmc {

/// Holds DIRECTORY/state/lock while it lives; a kill gives it back, too.
class FolderLock {
 public:
  /// The folder `state` must be there. Throws Failure(checkpoint) where a trainer holds the lock, with `advice`, what
  /// to do other than wait; where something in the folder is a link (refuse_planted_links()); or where the file cannot
  /// be made. On a file system without locks that is said to `log`, and nothing is held: refusing to train there would
  /// help nobody.
  FolderLock(const std::filesystem::path& directory, const std::string& advice, const Log& log,
             const Writer& writer = kRunWriter);
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) noexcept;

  /// Whether a trainer, or who else changes a run, holds the lock of `directory`, on this machine or, on a file system
  /// with shared locks, on another. Where there are no locks, nobody seems to.
  static bool is_held(const std::filesystem::path& directory);

  /// Whether this is the file that is locked.
  bool holds(const struct stat& file) const;

 private:
  int fd_;
};

}  // namespace llmc
