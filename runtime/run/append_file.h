// A file that grows by whole pieces: a line, a record.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace llmc {

/// Appends with one write, so that a kill leaves what was appended before. All functions throw Failure(checkpoint).
class AppendFile {
 public:
  /// Opens or creates; a link is not followed. `flags`: more of open(2)'s, such as O_EXCL.
  explicit AppendFile(const std::filesystem::path& path, int flags = 0);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  /// When it throws, the file is as before.
  void append(std::string_view bytes);
  /// Drops what is behind the first `bytes` bytes.
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
