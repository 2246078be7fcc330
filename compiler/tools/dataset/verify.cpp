#include "compiler/tools/dataset/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "compiler/tools/dataset/tokenizer_to_json.h"
#include "data/dataset_record.h"
#include "data/glob.h"
#include "data/shard_format.h"
#include "error.h"
#include "files/disk.h"
#include "files/durable_file.h"
#include "text/console.h"
#include "text/plural.h"

namespace llmc::data {
namespace fs = std::filesystem;

namespace {

DatasetRecord read(const fs::path& folder) {
  if (!disk::is_folder(folder, Exit::data))
    throw Failure(Exit::data, fmt::format("there is no folder '{}'. Give the folder of a data set", folder.string()));
  const std::optional<DatasetRecord> record = read_dataset_record(folder);
  if (!record)
    throw Failure(Exit::data,
                  fmt::format("'{}' has no {}, so there is nothing to compare its files with. Give a folder that "
                              "`llmc data build` wrote",
                              folder.string(), kDatasetFile));
  for (const DatasetSide* side : {&record->train, &record->validation})
    for (const DatasetShard& shard : side->shards)
      if (shard.xxh3.empty())
        throw Failure(
            Exit::data,
            fmt::format("'{}' has no checksum of {}: tokens/hf_to_shards.py and older versions of llmc record "
                        "none. Rebuild the data set with `llmc data build`",
                        (folder / kDatasetFile).string(), shard.file));
  return *record;
}

/// Describes a mismatch of a file; empty if its size and checksum are those recorded.
std::string mismatch(const fs::path& path, std::optional<std::uint64_t> bytes, const std::string& xxh3) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::none) return fmt::format("cannot be looked up: {}", error.message());
  if (!fs::exists(status)) return "does not exist";
  if (!fs::is_regular_file(status)) return "is not a file";
  const std::uint64_t found = disk::size(path, Exit::data);
  if (bytes && found != *bytes) return fmt::format("has {} bytes instead of {}", found, *bytes);
  const std::string checksum = file_checksum(path);
  if (checksum.empty()) return "cannot be read";
  return checksum == xxh3 ? "" : fmt::format("has the checksum {} instead of {}", checksum, xxh3);
}

}  // namespace

DatasetVerdict verify_dataset(const fs::path& folder) {
  const DatasetRecord record = read(folder);
  DatasetVerdict verdict{.path = folder, .files = 0, .bytes = 0, .tokens = 0, .damage = {}, .unlisted = {}};
  std::set<std::string> listed;
  const auto check = [&](const std::string& file, std::optional<std::uint64_t> bytes, const std::string& xxh3) {
    const fs::path path = folder / file;
    listed.insert(file);
    ++verdict.files;
    if (const std::string what = mismatch(path, bytes, xxh3); !what.empty())
      verdict.damage.push_back({file, what});
    else
      verdict.bytes += static_cast<std::int64_t>(disk::size(path, Exit::data));
  };
  if (!record.tokenizer_xxh3.empty()) check(record.tokenizer, {}, record.tokenizer_xxh3);
  if (!record.tokenizer_json_xxh3.empty()) check(kTokenizerJson, {}, record.tokenizer_json_xxh3);
  for (const auto& [name, side] : {std::pair("train", &record.train), {"validation", &record.validation}}) {
    std::int64_t tokens = 0;
    for (const DatasetShard& shard : side->shards) {
      check(shard.file, llmc_shard_bytes(record.wide, shard.tokens), shard.xxh3);
      tokens += shard.tokens;
    }
    if (tokens != side->tokens)
      verdict.damage.push_back({kDatasetFile, fmt::format("the shards of {} have {} tokens together instead of {}",
                                                          name, tokens, side->tokens)});
    verdict.tokens += tokens;
  }
  for (const fs::path& entry : disk::entries(folder, Exit::data))
    if (const std::string name = entry.filename().string(); matches_pattern("*.bin", name) && !listed.contains(name))
      verdict.unlisted.push_back(name);
  return verdict;
}

std::string verdict_text(const DatasetVerdict& verdict) {
  if (verdict.damage.empty())
    return fmt::format("{}: complete ({} file{}, {} bytes, {} tokens)\n", verdict.path.string(),
                       format_count(verdict.files), plural(verdict.files), format_count(verdict.bytes),
                       format_count(verdict.tokens));
  std::string text = fmt::format("{}: damaged\n", verdict.path.string());
  for (const ShardDamage& damage : verdict.damage) text += fmt::format("  {}: {}\n", damage.file, damage.what);
  return text;
}

std::string verdicts_json(const std::vector<DatasetVerdict>& verdicts) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const DatasetVerdict& verdict : verdicts) {
    Json damage = Json::array();
    for (const ShardDamage& one : verdict.damage) damage.push_back({{"file", one.file}, {"what", one.what}});
    list.push_back({{"path", verdict.path.string()},
                    {"complete", verdict.damage.empty()},
                    {"files", verdict.files},
                    {"bytes", verdict.bytes},
                    {"tokens", verdict.tokens},
                    {"damage", std::move(damage)},
                    {"unlisted", verdict.unlisted}});
  }
  return list.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace llmc::data
