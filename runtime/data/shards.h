// Token shards on disk, memory-mapped: the samples of a run and the checks that make strangers' files safe to read.
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

/// All files that a pattern names, sorted by the bytes of their paths. Safe to read from several threads.
class TokenShards {
 public:
  struct Shard {
    MappedFile file;  // megatron: the .bin file
    ShardLayout layout;
  };

  /// `pattern` as in glob_files. `format`: auto | llmc | nanogpt | nanogpt32 | megatron; auto knows llm.c by its magic
  /// number and Megatron by its .idx file (a pattern may name the .idx or the .bin files), and refuses everything else.
  /// Every id must be below `vocab_size`; each file is scanned for that once, remembered in `cache` (a folder, empty:
  /// not remembered). Raw uint16 cannot be of more than 65,536 tokens. vocab_size 0 does without both. Throws
  /// Failure(Exit::data) naming the file and what is wrong.
  TokenShards(const std::string& pattern, const std::string& format, std::int64_t vocab_size,
              const std::filesystem::path& cache = default_cache_folder());

  std::span<const Shard> shards() const { return shards_; }
  /// That files may be of another width than their format says; empty where none looks so.
  const std::string& warning() const { return warning_; }
  std::int64_t tokens() const;
  std::int64_t vocab_size() const { return vocab_size_; }
  /// Number of samples of sequence length T: (tokens - 1) / T of each shard.
  std::int64_t samples(std::int64_t sequence_length) const;
  /// Copies tokens [first, first + out.size()) of one shard; throws Failure(Exit::data) on an id that is not below
  /// vocab_size (below 2^31 when that is 0), so a file that changed after the scan cannot index out of a table. Throws
  /// Failure(Exit::data), with the number of the `sample` where there is one, when the file was cut short meanwhile.
  void read(std::size_t shard, std::int64_t first, std::span<std::int32_t> out, std::int64_t sample = -1) const;
  /// 16 hex digits over formats, sizes and sampled content, in order; moving or renaming the folder does not change it.
  std::string fingerprint() const { return identify().fingerprint; }
  /// The same, with that of each shard.
  struct Identity {
    std::string fingerprint;
    std::vector<ShardRecord> shards;
  };
  Identity identify() const;

 private:
  void check_ids(const Shard& shard, const MaxIdCache& known) const;

  std::vector<Shard> shards_;
  std::int64_t vocab_size_;
  std::string warning_;
};

/// The largest id of a shard (negative ids count as huge); reads all of it.
std::uint64_t scan_max_id(const TokenShards::Shard& shard);

/// The samples of one sequence length T, numbered through all shards: sample i of a shard is its tokens
/// [i*T, i*T + T], T + 1 of them, the last shared with the next sample; the tail of a shard is dropped.
class Samples {
 public:
  Samples(std::shared_ptr<const TokenShards> shards, std::int64_t sequence_length);
  std::int64_t count() const { return first_.back(); }
  std::int64_t sequence_length() const { return sequence_length_; }
  const TokenShards& shards() const { return *shards_; }
  /// The shard that a sample lies in.
  std::size_t shard_of(std::int64_t index) const;
  /// Number of the first sample of a shard; one past the last shard: count().
  std::int64_t first_of(std::size_t shard) const { return first_[shard]; }
  /// Fills `tokens` [T + 1] with sample `index` in [0, count()).
  void read(std::int64_t index, std::span<std::int32_t> tokens) const;

 private:
  std::shared_ptr<const TokenShards> shards_;
  std::int64_t sequence_length_;
  std::vector<std::int64_t> first_;  // [shards + 1]: number of the first sample of each shard
};

}  // namespace llmc
