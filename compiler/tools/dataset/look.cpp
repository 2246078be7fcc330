#include "compiler/tools/dataset/look.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "compiler/tools/dataset/read_tokenizer.h"
#include "data/shards.h"
#include "data/tokenizer.h"
#include "error.h"
#include "files/disk.h"
#include "text/console.h"
#include "text/plural.h"
#include "text/printable.h"

namespace llmc::data {
namespace fs = std::filesystem;

namespace {

/// Tokenizer file for the shards.
fs::path tokenizer_of(const fs::path& named, const fs::path& folder) {
  if (!named.empty()) return tokenizer_file(named);
  for (const char* name : {"tokenizer.model", "tokenizer.json"})
    if (disk::exists(folder / name, Exit::data)) return folder / name;
  throw Failure(Exit::data, fmt::format("'{}' has neither tokenizer.model nor tokenizer.json. Name the tokenizer that "
                                        "the shards were made with by --tokenizer",
                                        folder.string()));
}

LookedToken looked(const Tokenizer& tokenizer, std::int32_t id) {
  if (id >= tokenizer.vocab_size()) return {id, fmt::format("<id {}>", id)};
  std::string bytes = tokenizer.decode(std::span(&id, 1));
  return {id, bytes.empty() ? tokenizer.piece(id) : std::move(bytes)};
}

}  // namespace

Look look(const LookOptions& options) {
  const bool folder = disk::is_folder(options.file, Exit::data);
  const std::string pattern =
      folder ? (fs::path(options.file) / (options.validation ? "val-*.bin" : "train-*.bin")).string() : options.file;
  const auto shards = std::make_shared<const TokenShards>(pattern, options.format, 0, fs::path());
  const Tokenizer tokenizer(tokenizer_of(options.tokenizer, fs::path(pattern).parent_path()));
  const Samples samples(shards, options.sequence_length);
  if (options.sample < 0 || options.sample >= samples.count())
    throw Failure(Exit::data, fmt::format("there is no sample {}: '{}' has {} sample{} of {} tokens. Write --sample 0 "
                                          "to {}",
                                          options.sample, pattern, samples.count(), plural(samples.count()),
                                          options.sequence_length, samples.count() - 1));
  const std::size_t shard = samples.shard_of(options.sample);
  Look result{.shard = shards->shards()[shard].file.path().string(),
              .sample = options.sample,
              .samples = samples.count(),
              .first = (options.sample - samples.first_of(shard)) * options.sequence_length,
              .tokens = {}};
  std::vector<std::int32_t> ids(static_cast<std::size_t>(options.sequence_length) + 1);
  samples.read(options.sample, ids);
  for (const std::int32_t id : ids) result.tokens.push_back(looked(tokenizer, id));
  return result;
}

std::string look_text(const Look& look) {
  std::string text = fmt::format("{}: sample {} of {}, tokens {} to {}\n", printable(look.shard),
                                 format_count(look.sample), format_count(look.samples), format_count(look.first),
                                 format_count(look.first + static_cast<std::int64_t>(look.tokens.size()) - 1));
  for (std::size_t i = 0; i < look.tokens.size(); ++i) {
    if (i > 0) text += "│";
    for (const char c : printable_text(look.tokens[i].bytes)) text += c == '\n' ? "⏎\n" : std::string(1, c);
  }
  return text + "\n";
}

std::string look_json(const Look& look) {
  nlohmann::ordered_json tokens = nlohmann::ordered_json::array();
  for (const LookedToken& token : look.tokens) tokens.push_back({{"id", token.id}, {"text", token.bytes}});
  const nlohmann::ordered_json json = {{"file", look.shard},
                                       {"sample", look.sample},
                                       {"samples", look.samples},
                                       {"first", look.first},
                                       {"tokens", std::move(tokens)}};
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace llmc::data
