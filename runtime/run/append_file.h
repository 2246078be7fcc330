// A file that grows by whole lines or records.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace llmc {

/// Appends with one write, so that a kill leaves earlier content intact. All functions throw Failure(checkpoint).
class AppendFile {
 public:
  /// Opens or creates the file; links are not followed. `flags`: additional flags of open(2), such as O_EXCL.
  explicit AppendFile(const std::filesystem::path& path, int flags = 0);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  /// If it throws, the file is unchanged.
  void append(std::string_view bytes);
  /// Truncates the file to `bytes` bytes.
  void cut(std::int64_t bytes);

  int descriptor() const { return fd_; }
  const std::filesystem::path& path() const { return path_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  std::int64_t bytes_ = 0;
};

}  // namespace llmc
