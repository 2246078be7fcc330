// Reads untrusted safetensors files, and writes such files as a stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "checkpoint/safetensors_header.h"
#include "files/durable_file.h"

namespace llmc::safetensors {

/// An open file whose header passed all checks of parse_header. Holds only the header in memory; tensors are read on
/// request.
class Reader {
 public:
  /// Throws Failure(checkpoint) naming the file and the error.
  explicit Reader(const std::filesystem::path& path);
  ~Reader();
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  const std::filesystem::path& path() const { return path_; }
  const std::vector<Entry>& entries() const { return header_.entries; }  // by offset
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  const Entry* find(const std::string& name) const;  // null: no such tensor
  /// Returns "'PATH': tensor 'NAME'", the beginning of messages.
  std::string tensor(const std::string& name) const { return "'" + path_.string() + "': tensor '" + name + "'"; }

  /// Copies `bytes` of the tensor's data, from `offset` bytes into it. Throws Failure(checkpoint) if the file has
  /// shrunk or cannot be read; a range outside the tensor is a Failure(internal).
  void read(const Entry& entry, std::uint64_t offset, void* out, std::size_t bytes) const;

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  std::uint64_t data_begin_ = 0;
  Header header_;
  std::unordered_map<std::string, std::size_t> index_;
};

/// Writes one file in the order of entries(): the caller appends each tensor's bytes, in any number of parts.
class Writer {
 public:
  /// Creates `path` and writes the header. Throws Failure(owner.exit).
  Writer(const std::filesystem::path& path, std::span<const TensorSpec> tensors,
         const llmc::Writer& owner = kRunWriter);

  const std::vector<Entry>& entries() const { return entries_; }
  void append(const void* data, std::size_t bytes);
  /// Syncs and closes. Throws Failure(internal) if the appended bytes do not match the header.
  FileRecord finish();

 private:
  std::vector<Entry> entries_;
  DurableFile file_;
  std::uint64_t appended_ = 0;
};

}  // namespace llmc::safetensors
