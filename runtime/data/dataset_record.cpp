#include "data/dataset_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "data/shard_format.h"
#include "error.h"
#include "files/disk.h"
#include "text/json_problem.h"

namespace llmc {
namespace fs = std::filesystem;

namespace {

using Json = nlohmann::json;

constexpr std::uintmax_t kMaxBytes = 16 << 20;

/// Throws Failure(data) "'NAME' does not have the form that `llmc data build` writes: WHAT".
[[noreturn]] void refuse(const std::string& name, const std::string& what) {
  throw Failure(Exit::data, fmt::format("'{}' does not have the form that `llmc data build` writes: {}", name, what));
}

/// Tokens of a shard: its header has them in an int32.
constexpr std::int64_t kMostShardTokens = 0x7fffffff;

/// Reads the members of one object.
class Members {
 public:
  Members(const Json& object, const std::string& name) : object_(object), name_(name) {
    if (!object.is_object()) refuse(name, fmt::format("{} where an object is expected", object.type_name()));
  }

  const Json& at(const char* key) const { return object_.at(key); }

  /// A count of at most 2^62, so that sums of a few do not overflow; `otherwise` if the key is missing.
  std::int64_t count(const char* key, std::optional<std::int64_t> otherwise = {},
                     std::int64_t most = std::int64_t{1} << 62) const {
    const auto found = object_.find(key);
    if (found == object_.end()) return otherwise ? *otherwise : missing(key);
    if (!found->is_number_integer() || *found < 0 || *found > most)
      refuse(name_, fmt::format("'{}' is not a count", key));
    return found->get<std::int64_t>();
  }
  /// A checksum of 16 hex digits; empty if the key is missing.
  std::string checksum(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end()) return {};
    std::string text = found->is_string() ? found->get<std::string>() : "";
    if (text.size() != 16 || text.find_first_not_of("0123456789abcdef") != std::string::npos)
      refuse(name_, fmt::format("'{}' is not a checksum of 16 hex digits", key));
    return text;
  }
  /// A file of the same folder.
  std::string file(const char* key) const {
    const Json& value = object_.at(key);
    std::string text = value.is_string() ? value.get<std::string>() : "";
    if (text.empty() || text.size() > 255 || text == "." || text == ".." || text.find('/') != std::string::npos ||
        text.find('\0') != std::string::npos)
      refuse(name_, fmt::format("'{}' is not the name of a file", key));
    return text;
  }

 private:
  std::int64_t missing(const char* key) const { refuse(name_, fmt::format("key '{}' not found", key)); }

  const Json& object_;
  const std::string& name_;
};

DatasetSide read_side(const Json& json, const std::string& name) {
  const Members members(json, name);
  DatasetSide side{.documents = members.count("documents"),
                   .bytes = members.count("bytes"),
                   .tokens = members.count("tokens"),
                   .fingerprint = members.checksum("fingerprint"),
                   .shards = {}};
  const Json& shards = members.at("shards");
  if (!shards.is_array()) refuse(name, "'shards' is not a list");
  for (const Json& entry : shards) {
    const Members shard(entry, name);
    side.shards.push_back({.file = shard.file("file"),
                           .tokens = shard.count("tokens", {}, kMostShardTokens),
                           .documents = shard.count("documents", -1),
                           .max_id = shard.count("max_id", -1),
                           .xxh3 = shard.checksum("xxh3"),
                           .sampled = shard.checksum("sampled_xxh3")});
  }
  return side;
}

}  // namespace

DatasetRecord parse_dataset_record(std::string_view text, const std::string& name) {
  try {
    const Json json = Json::parse(text);
    const Members members(json, name);
    const Json& type = members.at("token_type");
    if (type != "uint16" && type != "uint32") refuse(name, "'token_type' is neither uint16 nor uint32");
    DatasetRecord record{.tokenizer = members.file("tokenizer"),
                         .tokenizer_xxh3 = members.checksum("tokenizer_xxh3"),
                         .tokenizer_json_xxh3 = members.checksum("tokenizer_json_xxh3"),
                         .wide = type == "uint32",
                         .files = members.count("files"),
                         .skipped_files = members.count("skipped_files"),
                         .skipped_lines = members.count("skipped_lines", 0),
                         .duplicates = members.count("duplicates", 0),
                         .passed_over = {},
                         .train = read_side(members.at("train"), name),
                         .validation = read_side(members.at("validation"), name)};
    const std::int64_t separator = members.count("separator_id", -1);
    if (separator > std::numeric_limits<std::int32_t>::max()) refuse(name, "'separator_id' is not a token");
    record.separator_id = static_cast<std::int32_t>(separator);
    if (const auto found = json.find("passed_over"); found != json.end()) {
      const Members extensions(*found, name);
      for (const auto& [extension, count] : found->items())
        record.passed_over[extension] = extensions.count(extension.c_str());
    }
    return record;
  } catch (const Json::exception& error) {
    refuse(name, json_problem(error));
  }
}

std::optional<DatasetRecord> read_dataset_record(const fs::path& folder) {
  const fs::path path = folder / kDatasetFile;
  std::error_code error;
  if (const auto bytes = fs::file_size(path, error); !error && bytes > kMaxBytes)
    throw Failure(Exit::data, fmt::format("'{}' has {} bytes, but may have {}", path.string(), bytes, kMaxBytes));
  const std::optional<std::string> text = disk::text(path);
  if (!text) return std::nullopt;
  return parse_dataset_record(*text, path.string());
}

const DatasetRecords::Folder& DatasetRecords::folder(const fs::path& path) {
  const auto [at, added] = folders_.try_emplace(path);
  Folder& folder = at->second;
  if (!added) return folder;
  try {
    std::error_code error;
    folder.time = fs::last_write_time(path / kDatasetFile, error);
    if (!error) folder.record = read_dataset_record(path);
  } catch (const Failure&) {
    return folder;  // `llmc data info` and `verify` report it
  }
  if (folder.record)
    for (const DatasetSide* side : {&folder.record->train, &folder.record->validation})
      for (const DatasetShard& shard : side->shards) folder.shards.emplace(shard.file, &shard);
  return folder;
}

std::optional<DatasetRecords::Found> DatasetRecords::find(const fs::path& path, std::uint64_t bytes) {
  const Folder& found = folder(path.parent_path());
  const auto shard = found.shards.find(path.filename().string());
  if (shard == found.shards.end()) return std::nullopt;
  const DatasetShard& record = *shard->second;
  if (bytes != llmc_shard_bytes(found.record->wide, record.tokens)) return std::nullopt;
  std::error_code error;
  const auto time = fs::last_write_time(path, error);
  if (error || time > found.time || record.max_id < 0) return std::nullopt;
  return Found{&*found.record, &record};
}

}  // namespace llmc
