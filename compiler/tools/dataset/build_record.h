// Record of an unfinished build of a data set, from which the same command continues.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "compiler/tools/dataset/shard_writer.h"

namespace llmc::data {

/// Name of the record in the pending folder.
inline constexpr const char* kBuildRecord = "build.json";

/// Documents of a side that are in its shards.
struct SideRecord {
  std::int64_t documents = 0, bytes = 0, tokens = 0;
  ShardState shards;
};

struct BuildRecord {
  std::string options;            // which the result depends on
  std::string text;               // digest of all documents
  std::string tokenizer_xxh3;     // of the tokenizer's file
  std::int32_t separator_id = 0;  // which files next to a tokenizer.json may name
  std::int64_t documents = 0;     // of the text, in its order, that are encoded
  std::int64_t bytes = 0;         // of these
  std::int64_t changed_documents = 0;
  std::int64_t bytes_per_token = 2;  // of the shards: 2 or 4
  SideRecord train, validation;
};

/// Replaces the record in a folder. What it lists must be durable before.
void write_build_record(const std::filesystem::path& folder, const BuildRecord& record);

/// Returns the record of a folder; nothing if there is none that can be read, if it names files that a build does not
/// write, or if a file is shorter than it says.
std::optional<BuildRecord> read_build_record(const std::filesystem::path& folder);

}  // namespace llmc::data
