// A directory that appears by one rename, whole, or not at all.
#pragma once

#include <filesystem>
#include <string>

namespace llmc {

/// Work happens in PARENT/.tmp-NAME. One writer a parent: the run folder's lock sees to that.
class AtomicDirectory {
 public:
  /// A leftover .tmp-NAME of a killed process is removed first. Throws Failure(checkpoint).
  AtomicDirectory(const std::filesystem::path& parent, const std::string& name);
  /// Removes what was not committed.
  ~AtomicDirectory();
  AtomicDirectory(const AtomicDirectory&) = delete;
  AtomicDirectory& operator=(const AtomicDirectory&) = delete;

  /// Where files are to be created; each must be finished before commit().
  const std::filesystem::path& path() const { return temporary_; }

  /// Syncs, renames to PARENT/NAME and syncs the parent. A NAME that exists already is exchanged for the new one and
  /// then deleted. Throws Failure(checkpoint); then NAME is the old one or the new one, and whole.
  std::filesystem::path commit();

 private:
  std::filesystem::path parent_, temporary_, final_;
  bool owns_temporary_ = false;
};

/// Renames PARENT/NAME to PARENT/.trash-NAME and deletes it, so that no half-deleted directory is ever seen under NAME.
/// Throws Failure(checkpoint) when the rename fails; then nothing was touched.
void remove_directory(const std::filesystem::path& parent, const std::string& name);

/// Removes the .tmp-PREFIX* and .trash-PREFIX* directories that killed processes left in `parent`; nothing else is
/// touched.
void remove_stale_directories(const std::filesystem::path& parent, const std::string& prefix);

}  // namespace llmc
