// The folder of a sweep, which one process at a time works in.
#pragma once

#include <filesystem>

namespace llmc::sweep {

/// Holds the folder from construction to destruction, or until the process ends.
class Folder {
 public:
  /// Creates the folder. Throws Failure(usage) if it has files and no sweep's, if another llmc sweep works in it, or if
  /// it cannot be written. On a file system without locks it holds none.
  explicit Folder(const std::filesystem::path& path);
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  /// Absolute, without links.
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int lock_ = -1;
};

}  // namespace llmc::sweep
