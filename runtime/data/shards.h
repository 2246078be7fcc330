// Memory-mapped token shards: the samples of a run, and the checks that make untrusted files safe to read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/mapped_file.h"
#include "data/max_id_cache.h"
#include "data/shard_format.h"
#include "data/shard_record.h"

namespace llmc {

/// All files that match a pattern, sorted by the bytes of their paths. Thread-safe for reading.
class TokenShards {
 public:
  struct Shard {
    MappedFile file;  // megatron: the .bin file
    ShardLayout layout;
    std::string sampled = {};  // ShardRecord::xxh3, if dataset.json records it
  };

  /// `pattern` as in glob_files. `format`: auto | llmc | nanogpt | nanogpt32 | megatron. auto detects llm.c by its
  /// magic number and Megatron by its .idx file (the pattern may match the .idx or the .bin files), and refuses
  /// everything else. Every id must be below `vocab_size`. Each file is scanned for that once and the result kept in
  /// `cache` (a folder; empty: not kept), unless a dataset.json records its largest id (DatasetRecords). Raw uint16
  /// allows at most 65,536 tokens in the vocabulary. vocab_size 0 skips both checks. Throws Failure(data) naming the
  /// file and the error.
  TokenShards(const std::string& pattern, const std::string& format, std::int64_t vocab_size,
              const std::filesystem::path& cache = default_cache_folder());

  std::span<const Shard> shards() const { return shards_; }
  /// Warns of files that may have another width than their format says; empty if none do.
  const std::string& warning() const { return warning_; }
  std::int64_t tokens() const;
  std::int64_t vocab_size() const { return vocab_size_; }
  /// Number of samples of sequence length T: (tokens - 1) / T of each shard.
  std::int64_t samples(std::int64_t sequence_length) const;
  /// Copies tokens [first, first + out.size()) of one shard. Throws Failure(data) on an id not below vocab_size (2^31
  /// if that is 0), so that a file changed after the scan cannot cause an out-of-bounds access. Throws Failure(data),
  /// naming `sample` unless that is -1, if the file was truncated meanwhile.
  void read(std::size_t shard, std::int64_t first, std::span<std::int32_t> out, std::int64_t sample = -1) const;
  /// Token that ends documents by Megatron's indices: the last one of the first 1,000 documents of each shard; -1 if a
  /// shard has no index, if these tokens differ, or if there is a single document. Throws Failure(data) if an index
  /// changed meanwhile.
  std::int32_t indexed_separator() const;
  /// 16 hex digits over formats, sizes and sampled content, in order. Unaffected by moving or renaming the folder.
  /// Taken from dataset.json if the shards are all of one side of a data set.
  std::string fingerprint() const { return identify().fingerprint; }
  /// Fingerprint of all shards and of each.
  struct Identity {
    std::string fingerprint;
    std::vector<ShardRecord> shards;
  };
  Identity identify() const;

 private:
  void check_ids(const Shard& shard, std::uint64_t max_id) const;

  std::vector<Shard> shards_;
  std::int64_t vocab_size_;
  std::string warning_;
  std::string fingerprint_;  // from dataset.json; empty: computed from the content
};

/// Largest id of a shard, which is read completely; negative ids count as huge.
std::uint64_t scan_max_id(const TokenShards::Shard& shard);

/// Samples of sequence length T, numbered through all shards. Sample i of a shard is its T + 1 tokens from i*T on; the
/// last one is the first of the next sample. The tail of a shard is dropped.
class Samples {
 public:
  Samples(std::shared_ptr<const TokenShards> shards, std::int64_t sequence_length);
  std::int64_t count() const { return first_.back(); }
  std::int64_t sequence_length() const { return sequence_length_; }
  const TokenShards& shards() const { return *shards_; }
  /// Shard that contains a sample.
  std::size_t shard_of(std::int64_t index) const;
  /// Number of the first sample of a shard; for one past the last shard: count().
  std::int64_t first_of(std::size_t shard) const { return first_[shard]; }
  /// Fills `tokens` [T + 1] with sample `index` in [0, count()).
  void read(std::int64_t index, std::span<std::int32_t> tokens) const;

 private:
  std::shared_ptr<const TokenShards> shards_;
  std::int64_t sequence_length_;
  std::vector<std::int64_t> first_;  // [shards + 1]: number of the first sample of each shard
};

}  // namespace llmc
