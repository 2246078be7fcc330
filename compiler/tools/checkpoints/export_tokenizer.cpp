#include "compiler/tools/checkpoints/export_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "checkpoint/checkpoint.h"
#include "compiler/tools/dataset/read_tokenizer.h"
#include "compiler/tools/dataset/tokenizer_to_json.h"
#include "data/bpe/tokenizer_config.h"
#include "data/tokenizer.h"
#include "data/tokenizer_model.h"
#include "error.h"
#include "files/disk.h"
#include "run/run_folder.h"
#include "spec/training_sources.h"
#include "trainer/startup/documents.h"

namespace llmc::checkpoints {

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

/// Returns a run's spec, with paths resolved; nothing without a run.
std::optional<spec::Spec> spec_of(const fs::path& run) {
  const std::optional<std::string> text = run.empty() ? std::nullopt : RunFolder::spec_yaml(run);
  if (!text) return std::nullopt;
  try {
    spec::Spec spec = spec::read_values(*text, "spec.yaml").spec;
    spec::resolve_paths(spec, run);
    return spec;
  } catch (const std::invalid_argument& error) {
    throw Failure(Exit::checkpoint, fmt::format("'{}': {}", (run / "spec.yaml").string(), error.what()));
  }
}

/// Returns data.tokenizer, or the tokenizer next to the shards, where `llmc data build` writes it.
fs::path tokenizer_of(const spec::Data& data) {
  if (!data.tokenizer.empty()) return data.tokenizer;
  const fs::path shards = fs::path(spec::training_sources(data).front().source.path).parent_path();
  std::error_code error;
  const bool json = !fs::exists(shards / "tokenizer.model", error) && fs::exists(shards / "tokenizer.json", error);
  return shards / (json ? "tokenizer.json" : "tokenizer.model");
}

/// Returns the token that ended documents in training, as far as the checkpoint, its spec or the run's data say; -1:
/// they do not, or the sources of a mixture differ.
std::int32_t separator_of(const Contents& contents, const std::optional<spec::Data>& data) {
  if (contents.state.separator >= 0) return contents.state.separator;
  const std::int64_t written = (data ? *data : contents.values.spec.data).documents.separator;
  if (written >= 0) return static_cast<std::int32_t>(written);
  try {
    return data ? recorded_separator(*data) : -1;
  } catch (const Failure&) {
    return -1;
  }
}

std::string text_of(const Json& config) { return config.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

/// `eos`: the name of the token that ends a text, or null.
std::string tokenizer_config(const Tokenizer& tokenizer, const TokenizerModel& about, const Json& eos,
                             std::int64_t sequence_length) {
  return text_of({{"tokenizer_class", "LlamaTokenizer"},
                  {"model_max_length", sequence_length},
                  {"bos_token", nullptr},
                  {"eos_token", eos},
                  {"pad_token", eos},
                  {"unk_token", tokenizer.piece(tokenizer.unknown_id())},
                  {"add_bos_token", false},
                  {"add_eos_token", false},
                  {"add_prefix_space", about.add_dummy_prefix},
                  {"clean_up_tokenization_spaces", false},
                  {"legacy", false}});
}

/// Whether a post-processor of a tokenizer.json adds tokens around a text.
bool adds_tokens(const Json& processor) {
  const auto type = processor.is_object() ? processor.find("type") : processor.end();
  return type != processor.end() && *type != "ByteLevel" && *type != "Sequence";
}

/// Returns a tokenizer.json that adds no token around a text, as data have none; the same bytes if the file adds none.
std::string without_added_tokens(const std::string& file) {
  Json json = Json::parse(file);
  Json& processor = json["post_processor"];
  const auto parts = processor.is_object() ? processor.find("processors") : processor.end();
  if (adds_tokens(processor)) {
    processor = nullptr;
  } else if (processor.is_object() && parts != processor.end() && parts->is_array() &&
             std::ranges::any_of(*parts, adds_tokens)) {
    Json kept = Json::array();
    for (const Json& part : *parts)
      if (!adds_tokens(part)) kept.push_back(part);
    *parts = std::move(kept);
  } else {
    return file;
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// Returns the config of a tokenizer.json: the one next to it with this model's eos_token and length, or the minimum
/// that `transformers` needs. `adds`: tokens that the given one adds around a text remain.
std::string json_tokenizer_config(const fs::path& file, const Json& eos, std::int64_t sequence_length, bool adds) {
  std::error_code error;
  const fs::path given = file.parent_path() / kTokenizerConfig;
  if (!fs::exists(given, error))
    return text_of({{"tokenizer_class", "PreTrainedTokenizerFast"},
                    {"model_max_length", sequence_length},
                    {"bos_token", nullptr},
                    {"eos_token", eos},
                    {"pad_token", eos},
                    {"clean_up_tokenization_spaces", false}});
  Json config = read_tokenizer_config(given);
  config["model_max_length"] = sequence_length;
  for (const char* key : {"add_bos_token", "add_eos_token"})
    if (!adds && config.contains(key)) config[key] = false;
  // An object with flags of the same token stays.
  if (eos.is_null() || Json(eos_token(config)) != eos) config["eos_token"] = eos;
  return text_of(config);
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
  const std::optional<spec::Spec> run = spec_of(run_of(contents.path));
  const std::optional<spec::Data> data = run ? std::optional(run->data) : std::nullopt;
  std::int32_t end = separator_of(contents, data);
  if (end >= 0) found.eos = end;
  if (named == "none") return found;
  fs::path file;
  if (!named.empty()) {
    file = data::tokenizer_file(named);
  } else {
    if (data) file = found.looked_for = tokenizer_of(*data);
    std::error_code error;
    if (file.empty() || !fs::exists(file, error)) return found;
  }
  std::string model = data::read_tokenizer(file);
  const std::string checksum = data::checksum_of(model);
  const auto refuse = [&](const std::string& what, const char* instead) {
    throw Failure(Exit::data, fmt::format("'{}' {}. {}", file.string(), what, instead));
  };
  if (!contents.state.tokenizer.empty() && checksum != contents.state.tokenizer)
    refuse(fmt::format("is not the tokenizer that the checkpoint was trained with: its checksum is {}, not {}",
                       checksum, contents.state.tokenizer),
           "Name the run's own with --tokenizer");
  const Tokenizer tokenizer(model, file.string(), file);
  const spec::Spec& spec = contents.values.spec;
  if (tokenizer.tokens_of_data() > spec.model.vocab_size)
    refuse(fmt::format("gives ids up to {}, but the model has only {} tokens", tokenizer.tokens_of_data() - 1,
                       spec.model.vocab_size),
           "Name another with --tokenizer, or none with --tokenizer none");
  if (end < 0) end = tokenizer.separator_id();
  if (end >= 0) found.eos = end;
  const Json eos = end < 0 || end >= tokenizer.vocab_size() ? Json(nullptr) : Json(tokenizer.piece(end));
  const std::int64_t length = spec.batch.sequence_length;
  // A model that was trained from random weights has seen no token before a text. One of given weights may need it, and
  // a checkpoint alone does not tell.
  const bool adds = !run || !run->init.from.empty();
  const std::string written = tokenizer.is_json() && !adds ? without_added_tokens(model) : model;
  found.tokenizer = {
      .file = file,
      .name = tokenizer.is_json() ? "tokenizer.json" : "tokenizer.model",
      .model = written,
      .changed = written != model,
      .tokens = tokenizer.vocab_size(),
      .config = tokenizer.is_json()
                    ? json_tokenizer_config(file, eos, length, adds)
                    : tokenizer_config(tokenizer, check_tokenizer_model(model, file.string()), eos, length),
      .json = converted(file, model, tokenizer)};
  return found;
}

}  // namespace llmc::checkpoints
