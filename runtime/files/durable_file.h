// Files that are on disk when finish() returns: every system call is checked, content is checksummed while written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "error.h"

namespace llmc {

/// Exit code of a failed write, and the option that names another target. Links are followed only if the user named the
/// file: in llmc's own folders another user may have created them.
struct Writer {
  Exit exit;
  const char* option;
  bool follows_links = true;
};
inline constexpr Writer kRunWriter{Exit::checkpoint, "--run", false};

/// A manifest's record of a file.
struct FileRecord {
  std::string name;  // without a directory
  std::uint64_t bytes = 0;
  std::string xxh3;  // XXH3-64 of the content, 16 hex digits
};

/// Streaming XXH3-64.
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

/// XXH3-64 of a regular file; empty if it cannot be read.
std::string file_checksum(const std::filesystem::path& path);

/// A new file. Every function throws Failure(writer.exit) with the path and the system's reason.
class DurableFile {
 public:
  /// Creates `path` with O_EXCL.
  explicit DurableFile(const std::filesystem::path& path, const Writer& writer = kRunWriter);
  /// Opens an existing file to write after its first `bytes`, which it must have; what follows them is dropped. The
  /// record then has no checksum.
  DurableFile(const std::filesystem::path& path, std::uint64_t bytes, const Writer& writer);
  /// Closes the file. The owner removes a file that was not finished.
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Replaces bytes already written, such as a header whose values are known last. The record then has no checksum.
  void overwrite(std::uint64_t offset, std::string_view bytes);
  /// Waits until everything written so far is on disk.
  void sync();
  /// Calls fsync and close. Nothing may be written afterwards.
  FileRecord finish();

 private:
  /// Calls `call(next, bytes, done)` until everything is written; it writes a part and returns its size, as write(2)
  /// does.
  template <typename Call>
  void write_all(const void* data, std::size_t bytes, const Call& call);

  std::filesystem::path path_;
  Writer writer_;
  int fd_ = -1;
  std::uint64_t bytes_ = 0;
  Checksum checksum_;
  bool overwritten_ = false;
};

/// Makes creations and renames in a directory survive a power loss.
void sync_directory(const std::filesystem::path& directory, const Writer& writer = kRunWriter);

/// Drops a finished file from the page cache, so that the next read comes from the disk. Ignores errors: file systems
/// in memory have no other copy.
void forget_cached(const std::filesystem::path& path);

/// Opens or creates a regular file in a folder that llmc writes to, and returns its descriptor. `flags`: as of open(2).
/// Throws Failure(writer.exit) for a link, whatever the writer says of links, and for a pipe or a device.
int open_own_file(const std::filesystem::path& path, int flags, const Writer& writer = kRunWriter);

/// Throws Failure(writer.exit) if `path` is a link, dangling or not.
void refuse_link(const std::filesystem::path& path, const Writer& writer);

/// Creates a directory and its missing parents, each durably. Refuses a link as the last component unless the writer
/// follows links; parents may be links.
void make_directories(const std::filesystem::path& directory, const Writer& writer = kRunWriter);

/// Replaces `path` by one rename; a link's target instead, if the writer follows links. Readers see the old or the new
/// content, never a mix. Refuses anything that exists and is not a regular file.
void write_file_atomically(const std::filesystem::path& path, std::string_view content,
                           const Writer& writer = kRunWriter);

/// Same as write_file_atomically(), but keeps a file that already has this content.
void replace_where_different(const std::filesystem::path& path, std::string_view content,
                             const Writer& writer = kRunWriter);

/// Throws if write_file_atomically() could not write `path`. Leaves no file behind.
void check_can_write(const std::filesystem::path& path, const Writer& writer);

/// Throws Failure(checkpoint) "cannot ACTION 'PATH': REASON" for the current errno of a failed read.
[[noreturn]] void throw_read_errno(const char* action, const std::filesystem::path& path);

/// Throws Failure(writer.exit) "cannot ACTION 'PATH': REASON" for the current errno.
[[noreturn]] void throw_errno(const char* action, const std::filesystem::path& path, const Writer& writer = kRunWriter);

}  // namespace llmc
