// What a run remembers of its shards, so that a start with other ones can say which of them are others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace llmc {

struct ShardRecord {
  std::string file;  // path from the folder that all of them lie in
  std::int64_t tokens = 0;
  std::string xxh3;  // over format, size and sampled content, as in TokenShards::fingerprint()

  bool operator==(const ShardRecord&) const = default;
};

/// "added 'c.bin', changed 'b.bin' (10 tokens, 12 before)": each shard that was added, removed, renamed or changed, at
/// most eight; empty where none was.
std::string shard_changes(const std::vector<ShardRecord>& before, const std::vector<ShardRecord>& after);

}  // namespace llmc
