#include "data/shard_tokenizer.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "data/dataset_record.h"
#include "error.h"
#include "files/durable_file.h"

namespace llmc {
namespace fs = std::filesystem;

namespace {

/// Record of a folder whose tokenizer has a checksum; nothing without a usable one.
std::optional<DatasetRecord> record_of(const fs::path& folder) {
  try {
    std::optional<DatasetRecord> record = read_dataset_record(folder);
    if (record && !record->tokenizer_xxh3.empty()) return record;
  } catch (const Failure&) {  // `llmc data info` and `verify` report it
  }
  return std::nullopt;
}

std::shared_ptr<const Tokenizer> read(const fs::path& file) {
  try {
    return std::make_shared<const Tokenizer>(file);
  } catch (const Failure&) {
    return nullptr;
  }
}

}  // namespace

std::shared_ptr<const Tokenizer> tokenizer_of_shards(const fs::path& pattern, std::shared_ptr<const Tokenizer> named) {
  const fs::path folder = pattern.parent_path();
  if (const auto record = record_of(folder);
      record && file_checksum(folder / record->tokenizer) == record->tokenizer_xxh3)
    return read(folder / record->tokenizer);
  if (named) return named;
  std::error_code error;
  for (const char* name : {"tokenizer.model", "tokenizer.json"})
    if (fs::exists(folder / name, error)) return read(folder / name);
  return nullptr;
}

std::string tokenizer_mismatch(const fs::path& pattern, const fs::path& named) {
  if (named.empty()) return "";
  const auto record = record_of(pattern.parent_path());
  const std::string checksum = record ? file_checksum(named) : "";
  if (checksum.empty() || checksum == record->tokenizer_xxh3 || checksum == record->tokenizer_json_xxh3) return "";
  return fmt::format(
      "'{}' was made with another tokenizer than data.tokenizer '{}': dataset.json records the checksum {}, "
      "not {}. Name the tokenizer of the data, or make the data with this one",
      pattern.string(), named.string(), record->tokenizer_xxh3, checksum);
}

}  // namespace llmc
