// A directory that appears by one rename, whole, or not at all.
#pragma once

#include <filesystem>
#include <string>

#include "files/durable_file.h"

namespace llmc {

/// Work happens in PARENT/.tmp-NAME. One writer a parent: the run folder's lock sees to that.
class AtomicDirectory {
 public:
  /// A leftover .tmp-NAME of a killed process is removed first. Throws Failure(writer.exit).
  AtomicDirectory(const std::filesystem::path& parent, const std::string& name, const Writer& writer = kRunWriter);
  /// Removes what was not committed.
  ~AtomicDirectory();
  AtomicDirectory(const AtomicDirectory&) = delete;
  AtomicDirectory& operator=(const AtomicDirectory&) = delete;

  /// Where files are to be created; each must be finished before commit().
  const std::filesystem::path& path() const { return temporary_; }
  /// The same, for another process that creates some of them.
  static std::filesystem::path path_of(const std::filesystem::path& parent, const std::string& name);

  /// publish_directory() as PARENT/NAME; its path.
  std::filesystem::path commit();

 private:
  std::filesystem::path parent_, temporary_, final_;
  Writer writer_;
  bool owns_temporary_ = false;
};

/// Syncs `temporary`, gives it the name `target` beside it and syncs their parent. A directory that had the name is
/// exchanged for it and then deleted. Throws Failure(writer.exit); then `target` is the old one or the new one, and
/// whole.
void publish_directory(const std::filesystem::path& temporary, const std::filesystem::path& target,
                       const Writer& writer = kRunWriter);

/// Renames PARENT/NAME to PARENT/.trash-NAME and deletes it, so that no half-deleted directory is ever seen under NAME.
/// Throws Failure(writer.exit) when the rename fails; then nothing was touched.
void remove_directory(const std::filesystem::path& parent, const std::string& name, const Writer& writer = kRunWriter);

/// Removes the .tmp-PREFIX* and .trash-PREFIX* directories that killed processes left in `parent`; nothing else is
/// touched.
void remove_stale_directories(const std::filesystem::path& parent, const std::string& prefix);

}  // namespace llmc
