// A temporary directory, removed with the object.
#pragma once

#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include "error.h"
#include "files/disk.h"

namespace llmc {

/// Created in the system's temporary directory; the destructor removes it with all its content.
class TemporaryFolder {
 public:
  /// `purpose` becomes part of its name. Throws Failure(toolchain).
  explicit TemporaryFolder(const std::string& purpose) {
    const std::filesystem::path parent = disk::temporary_files(Exit::toolchain);
    std::string name = (parent / ("llmc-" + purpose + "-XXXXXX")).string();
    if (!mkdtemp(name.data()))
      throw Failure(Exit::toolchain, "cannot make a folder in '" + parent.string() + "': " + std::strerror(errno) +
                                         ". Set TMPDIR to another one");
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace llmc
