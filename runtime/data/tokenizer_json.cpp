#include "data/tokenizer_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "data/bpe/byte_characters.h"
#include "data/bpe/normalizer.h"
#include "data/bpe/tokenizer_config.h"
#include "data/bpe/tokenizer_file.h"
#include "data/dataset_record.h"
#include "error.h"

namespace llmc {
namespace {

using Json = nlohmann::json;

constexpr const char* kSeparators[] = {"<|end_of_text|>", "<|endoftext|>", "</s>", "<eos>",
                                       "<\xef\xbd\x9c"
                                       "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>"};

/// Steps from tokens to bytes, collected from all of a file's decoders.
struct Steps {
  bool byte_level = false, byte_fallback = false;
  std::vector<std::pair<std::string, std::string>> replacements;  // each replaces the first by the second
};

/// Adds one decoder. Returns its problem; empty if it has none.
std::string add_steps(const Json& decoder, Steps& steps) {
  if (!decoder.is_object()) return "it has no decoder";
  const std::string type = text_at(decoder, "type");
  if (type == "ByteLevel") {
    steps.byte_level = true;
  } else if (type == "ByteFallback") {
    steps.byte_fallback = true;
  } else if (type == "Metaspace") {
    const std::string mark = text_at(decoder, "replacement");
    if (mark.empty()) return "its Metaspace decoder has no replacement";
    steps.replacements.emplace_back(mark, " ");
  } else if (type == "Replace") {
    const auto pattern = decoder.find("pattern");
    const std::string from = pattern != decoder.end() && pattern->is_object() ? text_at(*pattern, "String") : "";
    if (from.empty()) return "its Replace decoder does not replace plain text";
    steps.replacements.emplace_back(from, text_at(decoder, "content"));
  } else if (type == "Sequence") {
    const auto parts = decoder.find("decoders");
    if (parts == decoder.end() || !parts->is_array()) return "its Sequence decoder has no decoders";
    for (const Json& part : *parts) {
      if (text_at(part.is_object() ? part : Json::object(), "type") == "Sequence") return "its decoders are nested";
      if (std::string problem = add_steps(part, steps); !problem.empty()) return problem;
    }
  } else if (type == "Strip") {
    // Only blanks at the start of a whole text may be stripped, because segments decoded here follow other text.
    const auto stop = decoder.find("stop");
    if (stop == decoder.end() || *stop != 0) return "its Strip decoder removes the end of a string";
  } else if (type != "Fuse") {
    return fmt::format("llmc does not support its decoder '{}'", shown_type(decoder));
  }
  return "";
}

/// The byte of "<0x0A>".
std::optional<char> fallback_byte(const std::string& token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  int byte = 0;
  for (const char c : {token[3], token[4]}) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    if (digit < 0) return std::nullopt;
    byte = byte * 16 + digit;
  }
  return static_cast<char>(byte);
}

/// A byte-level token with a character that encodes no byte decodes to itself.
std::string decoded(const std::string& token, const Steps& steps) {
  if (steps.byte_level) return bytes_of_characters(token).value_or(token);
  if (const auto byte = fallback_byte(token); steps.byte_fallback && byte) return {*byte};
  std::string text = token;
  for (const auto& [from, to] : steps.replacements) text = replace_each(text, from, to);
  return text;
}

}  // namespace

bool looks_like_json(std::string_view file) { return file.starts_with('{'); }

NamedSeparator separator_next_to(const std::filesystem::path& tokenizer) {
  std::error_code error;
  const std::filesystem::path folder = is_directory(tokenizer, error) ? tokenizer : tokenizer.parent_path(),
                              config = folder / kTokenizerConfig;
  NamedSeparator found;
  try {
    if (const auto record = read_dataset_record(folder)) found.id = record->separator_id;
  } catch (const Failure&) {  // `llmc data info` and `verify` report it
  }
  if (exists(config, error)) found.name = eos_token(read_tokenizer_config(config));
  return found;
}

std::string why_no_separator(const std::filesystem::path& tokenizer) {
  const NamedSeparator named = separator_next_to(tokenizer);
  if (!named.name.empty())
    return fmt::format("eos_token of the {} next to it is '{}', which it does not have", kTokenizerConfig, named.name);
  return fmt::format("it has none of the special tokens {}, and no {} next to it names another as eos_token",
                     fmt::join(kSeparators, ", "), kTokenizerConfig);
}

JsonVocabulary parse_tokenizer_json(std::string_view json, const std::string& name, const NamedSeparator& separator) {
  return vocabulary_of(read_tokenizer_file(json, name), name, separator);
}

std::int32_t JsonVocabulary::tokens_of_data() const {
  const auto last = std::find_if(bytes_of.rbegin(), bytes_of.rend(), [](const std::string& b) { return !b.empty(); });
  return std::max(static_cast<std::int32_t>(bytes_of.rend() - last), separator + 1);
}

JsonVocabulary vocabulary_of(const TokenizerFile& file, const std::string& name, const NamedSeparator& separator) {
  const auto refuse = [&](const std::string& what) {
    throw Failure(Exit::data, fmt::format("'{}' cannot be used as a tokenizer: {}", name, what));
  };
  const std::string type = text_at(file.model, "type");
  if (type != "BPE" && !type.empty())
    refuse(fmt::format("its model is '{}' and not BPE, the only type that llmc supports", shown_type(file.model)));
  if (file.vocabulary.empty()) refuse("it has no model.vocab");
  Steps steps;
  if (const std::string problem = add_steps(file.decoder, steps); !problem.empty()) refuse(problem);
  JsonVocabulary found;
  std::set<std::string_view> tokens;
  std::vector<bool> taken;
  const auto place = [&](std::int64_t id) {
    const auto i = static_cast<std::size_t>(id);
    if (i < found.names.size()) return i;
    found.names.resize(i + 1), found.bytes_of.resize(i + 1), taken.resize(i + 1);
    return i;
  };
  for (const auto& [token, id] : file.vocabulary) {
    if (!tokens.insert(token).second) refuse("a token appears twice in model.vocab");
    const std::size_t i = place(id);
    if (taken[i]) refuse(fmt::format("two tokens of model.vocab have the id {}", id));
    taken[i] = true;
    found.names[i] = token;
    found.bytes_of[i] = decoded(token, steps);
  }
  std::map<std::string, std::int64_t> special;
  std::set<std::int64_t> added;
  for (const AddedToken& token : file.added) {
    if (token.id < 0 || token.content.empty()) refuse("an added token has no id, or no content");
    if (!added.insert(token.id).second) refuse(fmt::format("two added tokens have the id {}", token.id));
    const std::size_t i = place(token.id);
    if (taken[i] && found.names[i] != token.content)
      refuse(fmt::format("the id {} is one token in model.vocab and another in added_tokens", token.id));
    taken[i] = true;
    found.names[i] = token.content;
    found.bytes_of[i] = token.special ? "" : decoded(token.content, steps);
    if (token.special) special.emplace(token.content, token.id);
  }
  const auto size = static_cast<std::int32_t>(found.names.size());
  if (separator.id >= 0 && separator.id < size) {
    found.separator = separator.id;
  } else if (!separator.name.empty()) {
    const auto token = std::ranges::find(found.names, separator.name);
    if (token != found.names.end()) found.separator = static_cast<std::int32_t>(token - found.names.begin());
  } else {
    for (const char* end : kSeparators)
      if (const auto id = special.find(end); found.separator < 0 && id != special.end())
        found.separator = static_cast<std::int32_t>(id->second);
  }
  return found;
}

}  // namespace llmc
