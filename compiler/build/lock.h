// Locks a project's folder for one llmc at a time.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace llmc::build {

/// A lock held from construction to destruction, or until the process ends. A second holder of the same folder prints
/// one message and waits.
class FolderLock {
 public:
  /// Creates the folder. Throws Failure(usage) if that fails, or if the folder holds files that llmc did not write.
  FolderLock(const std::filesystem::path& folder, const std::function<void(const std::string&)>& say);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int file_ = -1;
};

}  // namespace llmc::build
