// Writes a directory that appears complete by one rename, or not at all.
#pragma once

#include <filesystem>
#include <string>

#include "files/durable_file.h"

namespace llmc {

/// Files are written in PARENT/.tmp-NAME. The run folder's lock guarantees one writer per parent.
class AtomicDirectory {
 public:
  /// Removes a leftover .tmp-NAME of a killed process first. Throws Failure(writer.exit).
  AtomicDirectory(const std::filesystem::path& parent, const std::string& name, const Writer& writer = kRunWriter);
  /// Removes the directory if it was not committed.
  ~AtomicDirectory();
  AtomicDirectory(const AtomicDirectory&) = delete;
  AtomicDirectory& operator=(const AtomicDirectory&) = delete;

  /// Directory to create files in. Finish each file before commit().
  const std::filesystem::path& path() const { return temporary_; }
  /// Returns path() for another process that creates some of the files.
  static std::filesystem::path path_of(const std::filesystem::path& parent, const std::string& name);

  /// Publishes the directory as PARENT/NAME (publish_directory()) and returns that path.
  std::filesystem::path commit();

 private:
  std::filesystem::path parent_, temporary_, final_;
  Writer writer_;
  bool owns_temporary_ = false;
};

/// Syncs `temporary`, renames it to its sibling `target` and syncs their parent. An existing `target` is exchanged for
/// it and then deleted. Throws Failure(writer.exit); `target` is then the complete old or the complete new directory.
void publish_directory(const std::filesystem::path& temporary, const std::filesystem::path& target,
                       const Writer& writer);

/// Renames PARENT/NAME to PARENT/.trash-NAME and deletes it, so that NAME never shows a half-deleted directory. Throws
/// Failure(writer.exit) if the rename fails; nothing has changed then.
void remove_directory(const std::filesystem::path& parent, const std::string& name, const Writer& writer = kRunWriter);

/// Removes only the .tmp-PREFIX* and .trash-PREFIX* directories that killed processes left in `parent`.
void remove_stale_directories(const std::filesystem::path& parent, const std::string& prefix);

}  // namespace llmc
