// Describes token shards as text and as JSON: `llmc data info`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/tools/dataset/corpus.h"

namespace llmc::data {

struct FileInfo {
  std::string path;
  std::string format, type;  // "llm.c uint16", "uint16"
  std::int64_t bytes = 0, tokens = 0;
  std::int64_t documents = -1;  // -1: the format does not record it
  std::int64_t max_id = 0;      // negative: the file has a negative id; 0 if there is no token
  std::int64_t samples = 0;
};

/// Input of `llmc data build`, from its dataset.json.
struct SourceInfo {
  std::int64_t files = 0, skipped_files = 0, skipped_lines = 0;  // skipped: as in CorpusCounts
  ExtensionCounts passed_over;
};

struct DataInfo {
  std::vector<FileInfo> files;
  std::optional<SourceInfo> source;  // of a folder with a dataset.json
  std::int64_t sequence_length = 0;  // 0: samples are not counted
  std::string fingerprint, warning;  // from TokenShards
};

/// Describes shards. `file` and `format` as in TokenShards, or the folder of a data set, all of whose shards are
/// described. Reads every token once for the largest id. Throws Failure(Exit::data) as TokenShards does and for an
/// invalid dataset.json, Failure(Exit::usage) for a negative sequence length.
DataInfo describe(const std::string& file, const std::string& format, std::int64_t sequence_length);

/// Prints 1234567 as 1,234,567.
std::string grouped(std::int64_t value);

/// Prints one line per file and a sum; ends with a newline.
std::string as_text(const DataInfo& info);
std::string as_json(const DataInfo& info);

}  // namespace llmc::data
