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

/// Owns the mapping. Where another process shortens the file, or its disk fails, what is missing reads as zeros: who
/// has read bytes asks damage() before they are used. Replace files by rename instead of writing over them.
class MappedFile {
 public:
  /// Throws Failure(Exit::data) naming the file when it cannot be opened, is no regular file, cannot be mapped, or is a
  /// Git LFS pointer.
  explicit MappedFile(std::filesystem::path path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  /// Takes what was read of bytes [first, first + count) out of this process's memory, not out of the system's cache,
  /// with what the system mapped around it.
  void release(std::size_t first, std::size_t count) const;
  /// Why bytes that were read may not be the file's; empty where they are.
  std::string damage() const;
  /// Throws Failure(Exit::data) with the file and its damage(), where there is some.
  void check() const;
  const std::filesystem::path& path() const { return path_; }
  /// Changes whenever the file is replaced or written: absolute path, size, modification time, device and inode.
  const std::string& identity() const { return identity_; }
  /// Device and inode: the same for every path of one file.
  const std::pair<std::uint64_t, std::uint64_t>& inode() const { return inode_; }

 private:
  std::filesystem::path path_;
  std::string identity_;
  std::pair<std::uint64_t, std::uint64_t> inode_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  UnreadablePages pages_;
};

}  // namespace llmc
