// One llmc at a time in a project's folder.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace llmc::build {

/// Held from construction to destruction, and no longer than the process lives. A second holder of the same folder
/// waits, and says so once.
class FolderLock {
 public:
  /// Makes the folder. Throws Failure(usage) where it cannot be, or holds files that llmc did not write.
  FolderLock(const std::filesystem::path& folder, const std::function<void(const std::string&)>& say);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int file_ = -1;
};

}  // namespace llmc::build
