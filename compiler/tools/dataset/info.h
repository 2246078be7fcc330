// Describes token shards as text and as JSON: `llmc data info`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/tools/dataset/lengths.h"
#include "data/dataset_record.h"

namespace llmc::data {

struct FileInfo {
  std::string path;
  std::string format, type;  // "llm.c uint16", "uint16"
  std::int64_t bytes = 0, tokens = 0;
  std::int64_t documents = -1;  // -1: the format does not record it
  std::int64_t max_id = 0;      // negative: the file has a negative id; 0 if there is no token
  std::int64_t samples = 0;
};

/// Documents of one side of a data set.
struct SideInfo {
  std::string name;         // train or validation
  std::int64_t tokens = 0;  // including separators
  double bytes_per_token = 0;
  Lengths lengths;
};

struct DataInfo {
  std::vector<FileInfo> files;
  std::optional<DatasetRecord> source;  // of a folder with a dataset.json
  std::vector<SideInfo> sides;          // of the same: those whose shards are all there, if their separator is recorded
  std::int64_t sequence_length = 0;     // 0: samples are not counted
  std::string fingerprint, warning;     // from TokenShards
};

/// Describes shards. `file` and `format` as in TokenShards, or the folder of a data set, all of whose shards are
/// described. Reads every token for the largest id, and those of a data set for the lengths of documents. Throws
/// Failure(Exit::data) as TokenShards does and for an invalid dataset.json, Failure(Exit::usage) for a negative
/// sequence length.
DataInfo describe(const std::string& file, const std::string& format, std::int64_t sequence_length);

/// Prints one line per file, a sum, and a histogram of each side of a data set; ends with a newline.
std::string as_text(const DataInfo& info);
std::string as_json(const DataInfo& info);

}  // namespace llmc::data
