// Files whose bytes are on the disk when finish() returns: every system call checked, checksummed while written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "error.h"

namespace llmc {

/// Who writes: how the process ends where a file cannot be written, and the option that names another place. Links are
/// followed where the user has named the file, and not in a folder of llmc's own, where somebody may have put them.
struct Writer {
  Exit exit;
  const char* option;
  bool follows_links = true;
};
inline constexpr Writer kRunWriter{Exit::checkpoint, "--run", false};

/// What a manifest knows of a file.
struct FileRecord {
  std::string name;  // without a directory
  std::uint64_t bytes = 0;
  std::string xxh3;  // XXH3-64 of the content, 16 hex digits
};

/// XXH3-64, a block at a time.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  void update(const void* data, std::size_t bytes);
  std::string hex() const;  // 16 digits

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// XXH3-64 of a regular file; empty where it cannot be read.
std::string file_checksum(const std::filesystem::path& path);

/// A new file. All functions throw Failure(writer.exit) that names the path and the system's reason.
class DurableFile {
 public:
  /// Creates `path` with O_EXCL.
  explicit DurableFile(const std::filesystem::path& path, const Writer& writer = kRunWriter);
  /// Closes; a file that was not finished stays behind for its owner to remove.
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Replaces bytes that were written: a header whose values are known last. The record has no checksum then.
  void overwrite(std::uint64_t offset, std::string_view bytes);
  /// fsync and close; nothing may be written after.
  FileRecord finish();

 private:
  /// `call(next, bytes, done)`: what writes a part, as write(2) does.
  template <typename Call>
  void write_all(const void* data, std::size_t bytes, const Call& call);

  std::filesystem::path path_;
  Writer writer_;
  int fd_ = -1;
  std::uint64_t bytes_ = 0;
  Checksum checksum_;
  bool overwritten_ = false;
};

/// Makes entries of a directory (creations, renames) survive a power loss.
void sync_directory(const std::filesystem::path& directory, const Writer& writer = kRunWriter);

/// Asks the system to drop its copy in memory of a file that was finished, so that the next read is of the disk. No
/// error: file systems in memory have nothing else.
void forget_cached(const std::filesystem::path& path);

/// Throws Failure(writer.exit) where `path` is a link, whether it leads anywhere or not.
void refuse_link(const std::filesystem::path& path, const Writer& writer);

/// Creates a directory and what is missing above it, each durable. One that is a link is refused, unless the writer
/// follows links; those above it may be.
void make_directories(const std::filesystem::path& directory, const Writer& writer = kRunWriter);

/// Replaces `path`, or where the writer follows links the file that it links to, by one rename; readers see the old
/// content or all of the new. What is there and no regular file is refused.
void write_file_atomically(const std::filesystem::path& path, std::string_view content,
                           const Writer& writer = kRunWriter);

/// The same, unless that is what the file holds.
void replace_where_different(const std::filesystem::path& path, std::string_view content,
                             const Writer& writer = kRunWriter);

/// Throws where write_file_atomically() could not write `path`, before there is something to write; leaves nothing.
void check_can_write(const std::filesystem::path& path, const Writer& writer);

/// Failure(checkpoint): "cannot ACTION 'PATH': REASON" for the current errno, of what is only read.
[[noreturn]] void throw_read_errno(const char* action, const std::filesystem::path& path);

/// Failure(writer.exit): "cannot ACTION 'PATH': REASON" for the current errno.
[[noreturn]] void throw_errno(const char* action, const std::filesystem::path& path, const Writer& writer = kRunWriter);

}  // namespace llmc
