#include "data/shard_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace llmc {

namespace {

using ByName = std::map<std::string, const ShardRecord*>;

ByName by_name(const std::vector<ShardRecord>& shards) {
  ByName names;
  for (const ShardRecord& shard : shards) names[shard.file] = &shard;
  return names;
}

}  // namespace

std::string shard_changes(const std::vector<ShardRecord>& before, const std::vector<ShardRecord>& after) {
  ByName gone = by_name(before), there = by_name(after);
  std::vector<std::string> changes;
  for (auto it = gone.begin(); it != gone.end();) {
    const auto now = there.find(it->first);
    if (now == there.end()) {
      ++it;
      continue;
    }
    if (*now->second != *it->second)
      changes.push_back(
          fmt::format("changed '{}' ({} tokens, {} before)", it->first, now->second->tokens, it->second->tokens));
    there.erase(now);
    it = gone.erase(it);
  }
  for (const auto& [file, shard] : there) {
    const auto same = std::ranges::find_if(gone, [&](const auto& entry) {
      return entry.second->xxh3 == shard->xxh3 && entry.second->tokens == shard->tokens;
    });
    if (same == gone.end()) {
      changes.push_back(fmt::format("added '{}'", file));
    } else {
      changes.push_back(fmt::format("renamed '{}' to '{}'", same->first, file));
      gone.erase(same);
    }
  }
  for (const auto& [file, shard] : gone) changes.push_back(fmt::format("removed '{}'", file));
  constexpr std::size_t kShown = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, changes.size()); ++i) text += (i ? ", " : "") + changes[i];
  return changes.size() > kShown ? fmt::format("{} and {} more", text, changes.size() - kShown) : text;
}

}  // namespace llmc
