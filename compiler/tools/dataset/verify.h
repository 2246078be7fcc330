// Finds all damage of a data set: `llmc data verify`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace llmc::data {

/// One defect of a file of the folder.
struct ShardDamage {
  std::string file, what;
};

struct DatasetVerdict {
  std::filesystem::path path;
  std::int64_t files = 0, bytes = 0, tokens = 0;  // that dataset.json lists
  std::vector<ShardDamage> damage;                // empty: complete
  std::vector<std::string> unlisted;              // shards that dataset.json does not list
};

/// Reads every file that dataset.json lists and compares its size and checksum. Throws Failure(Exit::data) if there is
/// no dataset.json, if it is not valid, or if it has no checksums.
DatasetVerdict verify_dataset(const std::filesystem::path& folder);

/// Prints one line, and one for each defect.
std::string verdict_text(const DatasetVerdict& verdict);
/// Prints a list with one object for each data set.
std::string verdicts_json(const std::vector<DatasetVerdict>& verdicts);

}  // namespace llmc::data
