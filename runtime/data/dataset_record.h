// Reads dataset.json, the description that `llmc data build` writes next to its shards.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llmc {

struct DatasetShard {
  std::string file;  // name in the folder
  std::int64_t tokens = 0;
  std::int64_t documents = -1;  // that end in it; -1: not recorded
  std::int64_t max_id = -1;     // largest token id; -1: not recorded
  std::string xxh3;             // XXH3-64 of the file, 16 hex digits; empty: not recorded
  std::string sampled;          // ShardRecord::xxh3; empty: not recorded

  bool operator==(const DatasetShard&) const = default;
};

struct DatasetSide {
  std::int64_t documents = 0, bytes = 0, tokens = 0;  // bytes of text; tokens include separators
  std::string fingerprint;                            // TokenShards::fingerprint(); empty: not recorded
  std::vector<DatasetShard> shards;
};

struct DatasetRecord {
  std::string tokenizer;                                         // name of its file in the folder
  std::string tokenizer_xxh3;                                    // XXH3-64 of that file; empty: not recorded
  std::string tokenizer_json_xxh3;                               // of a second tokenizer, tokenizer.json; empty: none
  std::int32_t separator_id = -1;                                // token that ends a document; -1: not recorded
  bool wide = false;                                             // tokens are uint32 instead of uint16
  std::int64_t files = 0, skipped_files = 0, skipped_lines = 0;  // of the text
  std::int64_t duplicates = 0;                                   // documents left out by --deduplicate
  std::map<std::string, std::int64_t> passed_over;               // files by extension
  DatasetSide train, validation;
};

inline constexpr char kDatasetFile[] = "dataset.json";

/// Throws Failure(data) naming `name` and the key that is missing, has another type or is out of range.
DatasetRecord parse_dataset_record(std::string_view json, const std::string& name);

/// Returns the record in `folder`; nothing if there is none. Throws Failure(data) as parse_dataset_record(), and for a
/// file of more than 16 MiB.
std::optional<DatasetRecord> read_dataset_record(const std::filesystem::path& folder);

/// Finds the records of shards in the dataset.json of their folders. A record holds for a file of its size that is not
/// newer than the dataset.json: such a file is opened without reading it.
class DatasetRecords {
 public:
  struct Found {
    const DatasetRecord* dataset = nullptr;
    const DatasetShard* shard = nullptr;  // max_id is recorded
  };
  /// Returns nothing if no record holds for the file of so many bytes. A dataset.json that cannot be used is ignored.
  std::optional<Found> find(const std::filesystem::path& shard, std::uint64_t bytes);

 private:
  struct Folder {
    std::optional<DatasetRecord> record;
    std::filesystem::file_time_type time;
    std::map<std::string, const DatasetShard*> shards;  // by file
  };
  const Folder& folder(const std::filesystem::path& path);
  std::map<std::filesystem::path, Folder> folders_;
};

}  // namespace llmc
