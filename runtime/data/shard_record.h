// A run's record of its shards, so that a later start can name the shards that differ.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace llmc {

struct ShardRecord {
  std::string file;  // path relative to the shards' common folder
  std::int64_t tokens = 0;
  std::string xxh3;  // over format, size and sampled content, as in TokenShards::fingerprint()

  bool operator==(const ShardRecord&) const = default;
};

/// Describes each shard that was added, removed, renamed or changed, at most eight: "added 'c.bin', changed 'b.bin' (10
/// tokens, 12 before)". Empty if none was.
std::string shard_changes(const std::vector<ShardRecord>& before, const std::vector<ShardRecord>& after);

}  // namespace llmc
