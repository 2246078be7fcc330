// Temporary folders for the files of one test.
#pragma once

#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace llmc::test {

/// In memory unless TMPDIR is set, because each save syncs a dozen times.
inline std::filesystem::path memory() {
  const bool here = std::getenv("TMPDIR") == nullptr && std::filesystem::is_directory("/dev/shm");
  return here ? "/dev/shm" : std::filesystem::temp_directory_path();
}

/// Removed with all its content by the destructor.
class Folder {
 public:
  explicit Folder(const std::filesystem::path& parent = memory()) : path(made(parent)) {}
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string operator/(const std::string& name) const { return (path / name).string(); }
  /// Creates the file and its parent folders; returns its path.
  std::string write(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories((path / name).parent_path());
    std::ofstream(path / name, std::ios::binary) << bytes;
    return *this / name;
  }
  std::string read(const std::string& name) const {
    std::ifstream file(path / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const std::filesystem::path path;

 private:
  static std::string made(const std::filesystem::path& parent) {
    std::string name = (parent / "llmc-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
    return name;
  }
};

}  // namespace llmc::test
