// Writes token shards in llm.c's format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/durable_file.h"

namespace llmc::data {

/// Error context of a data set's files.
inline constexpr Writer kDataWriter{Exit::data, "-o"};

struct ShardSummary {
  std::string file;  // name in the folder
  std::int64_t tokens = 0;
  std::int64_t documents = 0;  // that end in it
  std::int32_t max_id = 0;
  std::string xxh3;  // of the file
};

/// Files of a writer at some moment.
struct ShardState {
  std::vector<ShardSummary> shards;
  bool open = false;  // the last one is unfinished
};

/// Writes a stream of tokens to files PREFIX-00000.bin, PREFIX-00001.bin, ... of at most `shard_tokens` (below 2^31)
/// each.
class ShardWriter {
 public:
  /// `wide`: uint32 (llm.c's Llama 3 header) instead of uint16.
  ShardWriter(std::filesystem::path folder, std::string prefix, bool wide, std::int64_t shard_tokens);
  ~ShardWriter();
  /// Continues where another writer with the same arguments was. The tokens of the open shard that followed are
  /// dropped.
  void restore(ShardState state);
  /// Makes all appended tokens durable.
  ShardState save();
  /// Number of finished shards.
  std::int64_t finished() const { return static_cast<std::int64_t>(shards_.size()) - (file_ ? 1 : 0); }
  /// Appends a document.
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
  std::unique_ptr<DurableFile> file_;
  std::string buffer_;
};

}  // namespace llmc::data
