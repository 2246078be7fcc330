// Locks a project's folder for one llmc at a time.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace llmc::build {

/// A lock held from construction to destruction, or until the process ends. A second holder of the same folder prints
/// one message and waits.
class ProjectLock {
 public:
  /// Creates the folder. Throws Failure(usage) if that fails, or if the folder holds files that llmc did not write.
  ProjectLock(const std::filesystem::path& folder, const std::function<void(const std::string&)>& say);
  ~ProjectLock();
  ProjectLock(const ProjectLock&) = delete;
  ProjectLock& operator=(const ProjectLock&) = delete;

 private:
  int file_ = -1;
};

}  // namespace llmc::build
