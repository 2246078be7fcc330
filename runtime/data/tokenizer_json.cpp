#include "data/tokenizer_json.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <unordered_map>

#include "error.h"
#include "text/utf8.h"

namespace llmc {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMaxTokens = 1 << 20;
constexpr std::size_t kMaxTokenBytes = 4096, kMaxLevels = 32, kMaxDecoderValues = 1000, kMaxValues = 1 << 23;

/// Parts of the file that decoding needs. Merges, normalizer, pre-tokenizer and templates are skipped.
struct Contents {
  std::string model_type;
  std::vector<std::pair<std::string, std::int64_t>> vocabulary;
  struct Added {
    std::string content;
    std::int64_t id = -1;
    bool special = false;
  };
  std::vector<Added> added;
  Json decoder;
};

/// Tracks nlohmann's SAX events by the path of keys. Its DOM silently accepts duplicate keys and takes 26 times the
/// file's size.
class Events : public nlohmann::json_sax<Json> {
 public:
  Contents contents;
  std::string problem;

  bool null() override { return value(nullptr); }
  bool boolean(bool flag) override { return value(flag); }
  bool number_integer(number_integer_t number) override { return value(number); }
  bool number_unsigned(number_unsigned_t number) override { return value(number); }
  bool number_float(number_float_t number, const string_t&) override { return value(number); }
  bool binary(binary_t&) override { return fail("it contains binary data"); }
  bool string(string_t& text) override { return value(std::move(text)); }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (name.size() > kMaxTokenBytes) return fail("a key or a token is too long");
    Level& level = levels_.back();
    // Tokens are checked for duplicates once all are known.
    if (!in_vocabulary_map() && values_ < kMaxValues && !level.seen.insert(name).second)
      return fail(fmt::format("a key appears twice in one object at level {}", levels_.size()));
    level.key = std::move(name);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return fail(fmt::format("it is not valid JSON at byte {}", position));
  }

  /// Returns the problem of a file with more values than are read; empty if it has none.
  std::string excess() const {
    if (values_ > kMaxValues) return fmt::format("it has {} values, but llmc reads at most {}", values_, kMaxValues);
    if (decoder_values_ > kMaxDecoderValues)
      return fmt::format("its decoder has {} values, but llmc reads at most {}", decoder_values_, kMaxDecoderValues);
    return "";
  }

 private:
  struct Level {
    bool object;
    std::string key;             // of an object: the last one
    std::set<std::string> seen;  // of an object: all
    Json* decoder = nullptr;     // current part of the decoder
  };

  const std::string& top() const { return levels_[0].key; }
  bool in_vocabulary() const { return levels_.size() == 2 && top() == "model" && levels_[1].key == "vocab"; }
  bool in_vocabulary_map() const {
    return levels_.size() == 3 && levels_[2].object && top() == "model" && levels_[1].key == "vocab";
  }
  bool in_added_token() const {
    return levels_.size() == 3 && levels_[2].object && !levels_[1].object && top() == "added_tokens";
  }

  /// Slot for a value of the decoder; null for other values.
  Json* decoder_place(Json&& value) {
    if (levels_.empty() || !levels_[0].object || top() != "decoder") return nullptr;
    if (levels_.size() == 1) return &(contents.decoder = std::move(value));
    Level& level = levels_.back();
    if (!level.decoder) return nullptr;
    if (!level.object) {
      level.decoder->push_back(std::move(value));
      return &level.decoder->back();
    }
    return &((*level.decoder)[level.key] = std::move(value));
  }

  bool value(Json&& given) {
    if (levels_.empty()) return fail("it is not an object");
    if (++values_ > kMaxValues) return true;  // only counted
    if (in_vocabulary_map()) {
      if (!given.is_number_unsigned()) return fail("the id of a token of model.vocab is not a whole number");
      if (given.get<std::uint64_t>() >= static_cast<std::uint64_t>(kMaxTokens))
        return fail("a token of model.vocab has an id of 2^20 or more");
      contents.vocabulary.emplace_back(levels_[2].key, given.get<std::int64_t>());
      if (contents.vocabulary.size() > static_cast<std::size_t>(kMaxTokens))
        return fail("it has more than 2^20 tokens");
      return true;
    }
    if (levels_.size() == 2 && top() == "model" && levels_[1].object && levels_[1].key == "type" && given.is_string())
      contents.model_type = given.get<std::string>();
    if (in_added_token()) return added(given);
    if (top() == "decoder" && ++decoder_values_ <= kMaxDecoderValues) decoder_place(std::move(given));
    return true;
  }

  bool added(const Json& given) {
    const std::string& name = levels_[2].key;
    Contents::Added& token = contents.added.back();
    if (name == "id") {
      if (!given.is_number_unsigned() || given.get<std::uint64_t>() >= static_cast<std::uint64_t>(kMaxTokens))
        return fail("an added token has no id below 2^20");
      token.id = given.get<std::int64_t>();
    } else if (name == "content") {
      if (!given.is_string() || given.get_ref<const std::string&>().size() > kMaxTokenBytes)
        return fail("the content of an added token is missing or too long");
      token.content = given.get<std::string>();
    } else if (name == "special") {
      if (!given.is_boolean()) return fail("an added token's special is neither true nor false");
      token.special = given.get<bool>();
    }
    return true;
  }

  bool open(Json&& empty) {
    const bool object = empty.is_object();
    if (levels_.empty() && !object) return fail("it is not an object");
    if (levels_.size() >= kMaxLevels) return fail("it is nested too deeply");
    if (++values_ > kMaxValues) {  // only counted
      levels_.push_back({object, "", {}, nullptr});
      return true;
    }
    if (in_vocabulary_map()) return fail("the id of a token of model.vocab is not a whole number");
    if (!levels_.empty() && in_vocabulary() && !object) return fail("model.vocab is not a map of tokens, as BPE needs");
    if (in_added_token()) return fail("a field of an added token is a list or an object");
    Json* part = nullptr;
    if (!levels_.empty() && top() == "decoder" && ++decoder_values_ <= kMaxDecoderValues)
      part = decoder_place(std::move(empty));
    levels_.push_back({object, "", {}, part});
    if (in_added_token()) {
      if (contents.added.size() >= static_cast<std::size_t>(kMaxTokens)) return fail("it has more than 2^20 tokens");
      contents.added.emplace_back();
    }
    return true;
  }
  bool close() {
    levels_.pop_back();
    return true;
  }
  bool fail(std::string what) {
    problem = std::move(what);
    return false;
  }

  std::vector<Level> levels_;
  std::size_t values_ = 0, decoder_values_ = 0;
};

/// Steps from tokens to bytes, collected from all of a file's decoders.
struct Steps {
  bool byte_level = false, byte_fallback = false;
  std::vector<std::pair<std::string, std::string>> replacements;  // each replaces the first by the second
};

std::string text_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

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
    return fmt::format("llmc does not support its decoder '{}'", utf8_length(type) > 0 ? type.substr(0, 40) : "");
  }
  return "";
}

/// Maps code points of byte-level tokens to bytes: printable Latin-1 is itself, the other 68 bytes follow from 256 on,
/// in order (GPT-2's bytes_to_unicode).
const std::unordered_map<std::string, char>& byte_level_table() {
  static const std::unordered_map<std::string, char> table = [] {
    std::unordered_map<std::string, char> result;
    int next = 256;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
      const int point = printable ? byte : next++;
      std::string text;
      if (point < 0x80) {
        text += static_cast<char>(point);
      } else {
        text += static_cast<char>(0xc0 | point >> 6);
        text += static_cast<char>(0x80 | (point & 0x3f));
      }
      result[text] = static_cast<char>(byte);
    }
    return result;
  }();
  return table;
}

/// A token with a character that encodes no byte decodes to itself.
std::string from_byte_level(const std::string& token) {
  std::string bytes;
  for (std::size_t at = 0; at < token.size();) {
    const std::size_t length = utf8_length(std::string_view(token).substr(at));
    const auto found = byte_level_table().find(token.substr(at, length));
    if (length == 0 || found == byte_level_table().end()) return token;
    bytes += found->second;
    at += length;
  }
  return bytes;
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

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const bool found = text.compare(at, from.size(), from) == 0;
    result += found ? to : text.substr(at, 1);
    at += found ? from.size() : 1;
  }
  return result;
}

std::string decoded(const std::string& token, const Steps& steps) {
  if (steps.byte_level) return from_byte_level(token);
  if (const auto byte = fallback_byte(token); steps.byte_fallback && byte) return {*byte};
  std::string text = token;
  for (const auto& [from, to] : steps.replacements) text = replaced(std::move(text), from, to);
  return text;
}

}  // namespace

bool looks_like_json(std::string_view file) { return file.starts_with('{'); }

JsonVocabulary parse_tokenizer_json(std::string_view json, const std::string& name) {
  const auto refuse = [&](const std::string& what) {
    throw Failure(Exit::data, fmt::format("'{}' cannot be used as a tokenizer: {}", name, what));
  };
  Events events;
  if (!Json::sax_parse(json, &events)) refuse(events.problem);
  if (const std::string problem = events.excess(); !problem.empty()) refuse(problem);
  const Contents& contents = events.contents;
  if (contents.model_type != "BPE" && !contents.model_type.empty())
    refuse(fmt::format("its model is not BPE, the only type that llmc decodes"));
  if (contents.vocabulary.empty()) refuse("it has no model.vocab");
  Steps steps;
  if (const std::string problem = add_steps(contents.decoder, steps); !problem.empty()) refuse(problem);

  JsonVocabulary found;
  std::set<std::string_view> tokens;
  std::vector<bool> taken;
  const auto place = [&](std::int64_t id) {
    const auto i = static_cast<std::size_t>(id);
    if (i < found.names.size()) return i;
    found.names.resize(i + 1), found.bytes_of.resize(i + 1), taken.resize(i + 1);
    return i;
  };
  for (const auto& [token, id] : contents.vocabulary) {
    if (!tokens.insert(token).second) refuse("a token appears twice in model.vocab");
    const std::size_t i = place(id);
    if (taken[i]) refuse(fmt::format("two tokens of model.vocab have the id {}", id));
    taken[i] = true;
    found.names[i] = token;
    found.bytes_of[i] = decoded(token, steps);
  }
  std::map<std::string, std::int64_t> special;
  std::set<std::int64_t> added;
  for (const Contents::Added& token : contents.added) {
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
  for (const char* end : {"<|end_of_text|>", "<|endoftext|>", "</s>",
                          "<\xef\xbd\x9c"
                          "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>"})
    if (const auto id = special.find(end); found.separator < 0 && id != special.end())
      found.separator = static_cast<std::int32_t>(id->second);
  return found;
}

}  // namespace llmc
