#include "compiler/tools/dataset/info.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "compiler/tools/dataset/corpus.h"
#include "data/shards.h"
#include "error.h"
#include "text/console.h"
#include "text/plural.h"

namespace llmc::data {

namespace {

std::int64_t sum(const DataInfo& info, std::int64_t FileInfo::* field) {
  std::int64_t total = 0;
  for (const FileInfo& file : info.files) total += file.*field;
  return total;
}

/// Whether every shard that dataset.json lists is there. A folder may hold a part of a data set.
bool all_there(const std::filesystem::path& folder, const DatasetSide& side) {
  return std::ranges::all_of(side.shards,
                             [&](const DatasetShard& shard) { return disk::is_file(folder / shard.file, Exit::data); });
}

std::vector<SideInfo> describe_sides(const std::filesystem::path& folder, const DatasetRecord& record) {
  std::vector<SideInfo> sides;
  if (record.separator_id < 0) return sides;
  for (const auto& [name, side] : {std::pair("train", &record.train), {"validation", &record.validation}}) {
    if (side->shards.empty() || !all_there(folder, *side)) continue;
    Lengths lengths(record.separator_id);
    for (const DatasetShard& shard : side->shards)
      lengths.add(TokenShards((folder / shard.file).string(), "llmc", 0, {}));
    sides.push_back({.name = name,
                     .tokens = side->tokens,
                     .bytes_per_token =
                         side->tokens == 0 ? 0 : static_cast<double>(side->bytes) / static_cast<double>(side->tokens),
                     .lengths = std::move(lengths)});
  }
  return sides;
}

}  // namespace

DataInfo describe(const std::string& file, const std::string& format, std::int64_t sequence_length) {
  if (sequence_length < 0) throw Failure(Exit::usage, "the sequence length must not be negative");
  std::error_code error;
  const bool folder = std::filesystem::is_directory(file, error);
  const std::string pattern = folder ? file + "/*.bin" : file;
  const TokenShards shards(pattern, format, 0, {});
  DataInfo info{.files = {},
                .source = folder ? read_dataset_record(file) : std::nullopt,
                .sides = {},
                .sequence_length = sequence_length,
                .fingerprint = shards.fingerprint(),
                .warning = shards.warning()};
  for (const TokenShards::Shard& shard : shards.shards())
    info.files.push_back(
        {.path = shard.file.path().string(),
         .format = std::string(name_of(shard.layout.format)),
         .type = std::string(name_of(shard.layout.type)),
         .bytes = static_cast<std::int64_t>(shard.file.bytes().size()),
         .tokens = shard.layout.tokens,
         .documents = shard.layout.documents,
         .max_id = static_cast<std::int64_t>(scan_max_id(shard)),
         .samples = sequence_length == 0 ? 0 : std::max<std::int64_t>(shard.layout.tokens - 1, 0) / sequence_length});
  if (info.source) info.sides = describe_sides(file, *info.source);
  return info;
}

std::string as_text(const DataInfo& info) {
  std::string text;
  for (const FileInfo& file : info.files) {
    text += fmt::format("{}: {} ({}), {} token{}, largest id {}", file.path, file.format, file.type,
                        format_count(file.tokens), plural(file.tokens), file.max_id);
    if (file.documents >= 0)
      text += fmt::format(", {} document{}", format_count(file.documents), plural(file.documents));
    if (info.sequence_length > 0)
      text += fmt::format(", {} sample{}", format_count(file.samples), plural(file.samples));
    text += '\n';
  }
  const auto files = static_cast<std::int64_t>(info.files.size());
  const std::int64_t tokens = sum(info, &FileInfo::tokens), samples = sum(info, &FileInfo::samples);
  text += fmt::format("{} file{}, {} token{}", files, plural(files), format_count(tokens), plural(tokens));
  if (info.sequence_length > 0)
    text += fmt::format(", {} sample{} of {} token{}", format_count(samples), plural(samples), info.sequence_length,
                        plural(info.sequence_length));
  text += fmt::format(", fingerprint {}\n", info.fingerprint);
  if (info.source) {
    text += fmt::format("from {} file{}, {} skipped", format_count(info.source->files), plural(info.source->files),
                        format_count(info.source->skipped_files));
    if (const std::int64_t lines = info.source->skipped_lines)
      text += fmt::format(", {} line{} of .jsonl skipped", format_count(lines), plural(lines));
    if (const std::int64_t duplicates = info.source->duplicates)
      text += fmt::format(", {} duplicate{} left out", format_count(duplicates), plural(duplicates));
    if (!info.source->passed_over.empty()) text += "; " + passed_over_text(info.source->passed_over);
    text += '\n';
  }
  for (const SideInfo& side : info.sides)
    text +=
        fmt::format("{}: {} document{} of {} token{}, {:.2f} bytes a token\n{}", side.name,
                    format_count(side.lengths.documents()), plural(side.lengths.documents()), format_count(side.tokens),
                    plural(side.tokens), side.bytes_per_token, lengths_text(side.lengths));
  return text;
}

std::string as_json(const DataInfo& info) {
  nlohmann::ordered_json files = nlohmann::ordered_json::array();
  for (const FileInfo& file : info.files) {
    nlohmann::ordered_json entry = {{"path", file.path},   {"format", file.format}, {"type", file.type},
                                    {"bytes", file.bytes}, {"tokens", file.tokens}, {"max_id", file.max_id}};
    if (file.documents >= 0) entry["documents"] = file.documents;
    if (info.sequence_length > 0) entry["samples"] = file.samples;
    files.push_back(std::move(entry));
  }
  nlohmann::ordered_json json = {{"files", std::move(files)}, {"tokens", sum(info, &FileInfo::tokens)}};
  if (info.sequence_length > 0) {
    json["sequence_length"] = info.sequence_length;
    json["samples"] = sum(info, &FileInfo::samples);
  }
  json["fingerprint"] = info.fingerprint;
  if (info.source)
    json["source"] = {{"files", info.source->files},
                      {"skipped_files", info.source->skipped_files},
                      {"skipped_lines", info.source->skipped_lines},
                      {"passed_over", info.source->passed_over}};
  if (info.source && info.source->duplicates) json["source"]["duplicates"] = info.source->duplicates;
  for (const SideInfo& side : info.sides)
    json["sides"][side.name] = {{"documents", side.lengths.documents()},
                                {"tokens", side.tokens},
                                {"bytes_per_token", side.bytes_per_token},
                                {"longest", side.lengths.longest()},
                                {"lengths", lengths_json(side.lengths)}};
  // Paths may hold any bytes; JSON holds UTF-8.
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace llmc::data
