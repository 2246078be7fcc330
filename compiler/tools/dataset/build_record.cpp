#include "compiler/tools/dataset/build_record.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "files/disk.h"
#include "files/durable_file.h"

namespace llmc::data {
namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

Json to_json(const SideRecord& side) {
  Json shards = Json::array();
  for (const ShardSummary& shard : side.shards.shards)
    shards.push_back({{"file", shard.file},
                      {"tokens", shard.tokens},
                      {"documents", shard.documents},
                      {"max_id", shard.max_id},
                      {"xxh3", shard.xxh3}});
  return {{"documents", side.documents},
          {"bytes", side.bytes},
          {"tokens", side.tokens},
          {"open", side.shards.open},
          {"shards", std::move(shards)}};
}

/// Thrown for a record that no build writes.
struct Unusable {};

std::int64_t count_at(const Json& json, const char* key, std::int64_t most = std::int64_t{1} << 62) {
  const Json& value = json.at(key);
  if (!value.is_number_integer()) throw Unusable();
  const auto count = value.get<std::int64_t>();
  if (count < 0 || count > most) throw Unusable();
  return count;
}

SideRecord side_from(const Json& json, const char* prefix) {
  SideRecord side;
  side.documents = count_at(json, "documents");
  side.bytes = count_at(json, "bytes");
  side.tokens = count_at(json, "tokens");
  side.shards.open = json.at("open");
  for (const Json& shard : json.at("shards")) {
    side.shards.shards.push_back({.file = fmt::format("{}-{:05}.bin", prefix, side.shards.shards.size()),
                                  .tokens = count_at(shard, "tokens", 0x7fffffff),
                                  .documents = count_at(shard, "documents"),
                                  .max_id = static_cast<std::int32_t>(count_at(shard, "max_id", 0x7fffffff)),
                                  .xxh3 = shard.at("xxh3")});
    if (shard.at("file") != side.shards.shards.back().file || side.shards.shards.back().tokens == 0) throw Unusable();
  }
  return side;
}

/// Whether each file has the bytes of its tokens. A power loss can shorten none, because all were synced.
bool are_there(const fs::path& folder, const SideRecord& side, std::int64_t bytes_per_token) {
  for (const ShardSummary& shard : side.shards.shards) {
    std::error_code error;
    const fs::path path = folder / shard.file;
    if (!fs::is_regular_file(fs::symlink_status(path, error))) return false;
    const std::uintmax_t bytes = fs::file_size(path, error);
    if (error || bytes < 1024 + static_cast<std::uintmax_t>(bytes_per_token * shard.tokens)) return false;
  }
  return !side.shards.open || !side.shards.shards.empty();
}

}  // namespace

void write_build_record(const fs::path& folder, const BuildRecord& record) {
  const Json json = {{"options", record.options},
                     {"text", record.text},
                     {"tokenizer_xxh3", record.tokenizer_xxh3},
                     {"separator_id", record.separator_id},
                     {"documents", record.documents},
                     {"bytes", record.bytes},
                     {"changed_documents", record.changed_documents},
                     {"bytes_per_token", record.bytes_per_token},
                     {"train", to_json(record.train)},
                     {"validation", to_json(record.validation)}};
  write_file_atomically(folder / kBuildRecord, json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n",
                        kDataWriter);
}

std::optional<BuildRecord> read_build_record(const fs::path& folder) try {
  const Json json = Json::parse(disk::text(folder / kBuildRecord).value_or(""));
  BuildRecord record;
  record.options = json.at("options");
  record.text = json.at("text");
  record.tokenizer_xxh3 = json.at("tokenizer_xxh3");
  record.separator_id = static_cast<std::int32_t>(count_at(json, "separator_id", 0x7fffffff));
  record.documents = count_at(json, "documents");
  record.bytes = count_at(json, "bytes");
  record.changed_documents = count_at(json, "changed_documents");
  record.bytes_per_token = count_at(json, "bytes_per_token", 4);
  if (record.bytes_per_token != 2 && record.bytes_per_token != 4) return std::nullopt;
  record.train = side_from(json.at("train"), "train");
  record.validation = side_from(json.at("validation"), "val");
  for (const SideRecord* side : {&record.train, &record.validation})
    if (!are_there(folder, *side, record.bytes_per_token)) return std::nullopt;
  return record;
} catch (const Json::exception&) {
  return std::nullopt;
} catch (const Unusable&) {
  return std::nullopt;
}

}  // namespace llmc::data
