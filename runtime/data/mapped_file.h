// A regular file mapped read-only into memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

#include "data/unreadable_pages.h"

namespace llmc {

/// Owns the mapping. Another process may truncate, overwrite or replace the file, or its disk may fail; missing bytes
/// then read as zeros. Call damage() after reading bytes and before using them: whatever happened until they were read,
/// it reports. A file that was only removed is read to the end.
class MappedFile {
 public:
  /// Throws Failure(data) naming the file if it cannot be opened, is not a regular file, cannot be mapped, or is a Git
  /// LFS pointer.
  explicit MappedFile(std::filesystem::path path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  /// Drops the pages of bytes [first, first + count) and those mapped around them from this process's memory. The page
  /// cache keeps them.
  void release(std::size_t first, std::size_t count) const;
  /// Describes why bytes read so far may be wrong; empty if they are correct.
  std::string damage() const;
  /// Throws Failure(data) with the file and damage(), unless that is empty.
  void check() const;
  const std::filesystem::path& path() const { return path_; }
  /// Absolute path, size, modification time, device and inode: changes whenever the file is replaced or written.
  const std::string& identity() const { return identity_; }
  /// Device and inode: equal for all paths of one file.
  const std::pair<std::uint64_t, std::uint64_t>& inode() const { return inode_; }

 private:
  std::filesystem::path path_;
  std::string identity_;
  std::pair<std::uint64_t, std::uint64_t> inode_;
  std::pair<std::int64_t, std::int64_t> modified_;  // seconds, nanoseconds
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  UnreadablePages pages_;
};

}  // namespace llmc
