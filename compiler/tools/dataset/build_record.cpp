#include "compiler/tools/dataset/build_record.h"

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

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

SideRecord side_from(const Json& json) {
  SideRecord side;
  side.documents = json.at("documents");
  side.bytes = json.at("bytes");
  side.tokens = json.at("tokens");
  side.shards.open = json.at("open");
  for (const Json& shard : json.at("shards"))
    side.shards.shards.push_back({.file = shard.at("file"),
                                  .tokens = shard.at("tokens"),
                                  .documents = shard.at("documents"),
                                  .max_id = shard.at("max_id"),
                                  .xxh3 = shard.at("xxh3")});
  return side;
}

/// Whether each file has at least two bytes a token; a power loss can shorten none, because all were synced.
bool are_there(const fs::path& folder, const SideRecord& side) {
  for (const ShardSummary& shard : side.shards.shards) {
    std::error_code error;
    const std::uintmax_t bytes = fs::file_size(folder / shard.file, error);
    if (error || bytes < 1024 + 2 * static_cast<std::uintmax_t>(shard.tokens)) return false;
  }
  return !side.shards.open || !side.shards.shards.empty();
}

}  // namespace

void write_build_record(const fs::path& folder, const BuildRecord& record) {
  const Json json = {{"options", record.options},
                     {"text", record.text},
                     {"tokenizer_xxh3", record.tokenizer_xxh3},
                     {"documents", record.documents},
                     {"bytes", record.bytes},
                     {"changed_documents", record.changed_documents},
                     {"train", to_json(record.train)},
                     {"validation", to_json(record.validation)}};
  write_file_atomically(folder / kBuildRecord, json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n",
                        kDataWriter);
}

std::optional<BuildRecord> read_build_record(const fs::path& folder) try {
  std::ifstream file(folder / kBuildRecord, std::ios::binary);
  const Json json = Json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
  BuildRecord record;
  record.options = json.at("options");
  record.text = json.at("text");
  record.tokenizer_xxh3 = json.at("tokenizer_xxh3");
  record.documents = json.at("documents");
  record.bytes = json.at("bytes");
  record.changed_documents = json.at("changed_documents");
  record.train = side_from(json.at("train"));
  record.validation = side_from(json.at("validation"));
  if (!are_there(folder, record.train) || !are_there(folder, record.validation)) return std::nullopt;
  return record;
} catch (const Json::exception&) {
  return std::nullopt;
}

}  // namespace llmc::data
