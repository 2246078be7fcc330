#include "compiler/tools/checkpoints/export_tokenizer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"
#include "compiler/tools/dataset/read_tokenizer.h"
#include "compiler/tools/dataset/tokenizer_to_json.h"
#include "data/tokenizer.h"
#include "data/tokenizer_model.h"
#include "error.h"
#include "files/disk.h"
#include "run/run_folder.h"
#include "spec/training_sources.h"

namespace llmc::checkpoints {

namespace fs = std::filesystem;

namespace {

/// Returns the tokenizer of a checkpoint's run: data.tokenizer, or the one next to the shards, where `llmc data build`
/// writes it.
fs::path tokenizer_of_run(const fs::path& run) {
  const std::optional<std::string> text = run.empty() ? std::nullopt : RunFolder::spec_yaml(run);
  if (!text) return {};
  try {
    const spec::Data data = spec::read_values(*text, "spec.yaml").spec.data;
    if (!data.tokenizer.empty()) return (run / data.tokenizer).lexically_normal();
    const fs::path shards = run / fs::path(spec::training_sources(data).front().source.path).parent_path();
    std::error_code error;
    const bool json = !fs::exists(shards / "tokenizer.model", error) && fs::exists(shards / "tokenizer.json", error);
    return (shards / (json ? "tokenizer.json" : "tokenizer.model")).lexically_normal();
  } catch (const std::invalid_argument& error) {
    throw Failure(Exit::checkpoint, fmt::format("'{}': {}", (run / "spec.yaml").string(), error.what()));
  }
}

std::string tokenizer_config(const Tokenizer& tokenizer, const TokenizerModel& about, std::int64_t sequence_length) {
  using Json = nlohmann::ordered_json;
  const std::int32_t end = tokenizer.separator_id();
  const Json end_piece = end < 0 ? Json(nullptr) : Json(tokenizer.piece(end));
  const Json config = {{"tokenizer_class", "LlamaTokenizer"},
                       {"model_max_length", sequence_length},
                       {"bos_token", nullptr},
                       {"eos_token", end_piece},
                       {"pad_token", end_piece},
                       {"unk_token", tokenizer.piece(tokenizer.unknown_id())},
                       {"add_bos_token", false},
                       {"add_eos_token", false},
                       {"add_prefix_space", about.add_dummy_prefix},
                       {"clean_up_tokenization_spaces", false},
                       {"legacy", false}};
  return config.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// Returns the config of a tokenizer.json: the one next to it, or the minimum that `transformers` needs.
std::string json_tokenizer_config(const fs::path& file, const Tokenizer& tokenizer, std::int64_t sequence_length) {
  using Json = nlohmann::ordered_json;
  std::error_code error;
  const fs::path beside = file.parent_path() / "tokenizer_config.json";
  if (fs::exists(beside, error)) return read_small_file(beside);
  const std::int32_t end = tokenizer.separator_id();
  const Json end_piece = end < 0 ? Json(nullptr) : Json(tokenizer.piece(end));
  const Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                       {"model_max_length", sequence_length},
                       {"bos_token", nullptr},
                       {"eos_token", end_piece},
                       {"pad_token", end_piece},
                       {"clean_up_tokenization_spaces", false}};
  return config.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// Returns the tokenizer.json next to a tokenizer.model, if it was made from it (`llmc data build --train-tokenizer`).
std::string converted(const fs::path& file, const std::string& model, const Tokenizer& tokenizer) {
  if (tokenizer.is_json() || !tokenizer.exact()) return "";
  const std::optional<std::string> json = disk::text(file.parent_path() / data::kTokenizerJson);
  return json && *json == data::tokenizer_to_json(model) ? *json : "";
}

}  // namespace

FoundTokenizer find_tokenizer(const Contents& contents, const fs::path& named) {
  FoundTokenizer found;
  fs::path file;
  if (!named.empty()) {
    file = data::tokenizer_file(named);
  } else {
    file = found.looked_for = tokenizer_of_run(run_of(contents.path));
    std::error_code error;
    if (file.empty() || !fs::exists(file, error)) return found;
  }
  std::string model = data::read_tokenizer(file);
  const std::string checksum = data::checksum_of(model);
  const auto refuse = [&](const std::string& what) {
    throw Failure(Exit::data, fmt::format("'{}' {}. Name the run's own with --tokenizer", file.string(), what));
  };
  if (!contents.state.tokenizer.empty() && checksum != contents.state.tokenizer)
    refuse(fmt::format("is not the tokenizer that the checkpoint was trained with: its checksum is {}, not {}",
                       checksum, contents.state.tokenizer));
  const Tokenizer tokenizer(model, file.string());
  const spec::Spec& spec = contents.values.spec;
  if (tokenizer.vocab_size() > spec.model.vocab_size)
    refuse(fmt::format("has {} tokens, but the model only {}", tokenizer.vocab_size(), spec.model.vocab_size));
  const std::int32_t end = tokenizer.separator_id();
  found.tokenizer = {.file = file,
                     .name = tokenizer.is_json() ? "tokenizer.json" : "tokenizer.model",
                     .model = model,
                     .tokens = tokenizer.vocab_size(),
                     .eos = end < 0 ? std::nullopt : std::optional(end),
                     .config = tokenizer.is_json()
                                   ? json_tokenizer_config(file, tokenizer, spec.batch.sequence_length)
                                   : tokenizer_config(tokenizer, check_tokenizer_model(model, file.string()),
                                                      spec.batch.sequence_length),
                     .json = converted(file, model, tokenizer)};
  return found;
}

}  // namespace llmc::checkpoints
