// Writes files so that errors are seen, and token shards in llm.c's format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace llmc::data {

/// A new file; every write, fsync and close is checked and throws Failure(Exit::data).
class OutputFile {
 public:
  explicit OutputFile(std::filesystem::path path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  void write(std::string_view bytes);
  void write_at(std::int64_t offset, std::string_view bytes);
  /// Syncs and closes.
  void finish();

 private:
  [[noreturn]] void fail(const char* what) const;
  std::filesystem::path path_;
  int file_;
};

/// Syncs a directory, so that the names in it survive a crash.
void sync_directory(const std::filesystem::path& path);

struct ShardSummary {
  std::string file;  // name in the folder
  std::int64_t tokens;
};

/// A run of tokens in files PREFIX-00000.bin, PREFIX-00001.bin, ... of at most `shard_tokens` (below 2^31) each.
class ShardWriter {
 public:
  /// `wide`: uint32 (llm.c's Llama 3 header) instead of uint16.
  ShardWriter(std::filesystem::path folder, std::string prefix, bool wide, std::int64_t shard_tokens);
  ~ShardWriter();
  void append(std::span<const std::int32_t> tokens);
  /// Closes the last shard and returns all of them.
  std::vector<ShardSummary> finish();

 private:
  void flush();
  void close();

  std::filesystem::path folder_;
  std::string prefix_;
  bool wide_;
  std::int64_t shard_tokens_;
  std::vector<ShardSummary> shards_;
  std::unique_ptr<OutputFile> file_;
  std::string buffer_;
};

}  // namespace llmc::data
