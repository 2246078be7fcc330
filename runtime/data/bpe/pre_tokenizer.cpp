#include "data/bpe/pre_tokenizer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "text/printable.h"
#include "text/utf8.h"

namespace llmc {
namespace {

using Json = nlohmann::json;

std::string read_metaspace(const Json& json, PreTokenizer& read) {
  read.mark = text_at(json, "replacement");
  if (read.mark.empty() || utf8_length(read.mark) != read.mark.size())
    return "its Metaspace pre-tokenizer has no character as replacement";
  const std::string scheme = text_at(json, "prepend_scheme");
  if (scheme == "never" || (scheme.empty() && !flag_at(json, "add_prefix_space", true)))
    read.prefix_mark = PreTokenizer::Prefix::never;
  else if (scheme == "first")
    read.prefix_mark = PreTokenizer::Prefix::first;
  else if (scheme == "always" || scheme.empty())
    read.prefix_mark = PreTokenizer::Prefix::always;
  else
    return "the prepend_scheme of its Metaspace pre-tokenizer is neither always, first nor never";
  read.split_at_marks = flag_at(json, "split", true);
  return "";
}

std::string read_byte_level(const Json& json, PreTokenizer& read) {
  read.byte_level = true;
  read.prefix_space = flag_at(json, "add_prefix_space", true);
  read.rule = flag_at(json, "use_regex", true) ? WordRule::gpt2 : WordRule::whole;
  return "";
}

/// Reads a Split whose expression is one of WordRule. "Isolated" and the inverted "Removed" keep the same words,
/// because each expression matches every character.
std::string read_split(const Json& json, PreTokenizer& read) {
  const auto pattern = json.find("pattern");
  const std::string expression = pattern == json.end() ? "" : text_at(*pattern, "Regex");
  const auto rule = word_rule(expression);
  if (!rule)
    return fmt::format("llmc does not support the expression of its Split pre-tokenizer, '{}'",
                       is_utf8(expression) ? printable(expression.substr(0, utf8_floor(expression, 200))) : "");
  const std::string behavior = text_at(json, "behavior");
  if (behavior != (flag_at(json, "invert", false) ? "Removed" : "Isolated"))
    return "its Split pre-tokenizer is neither Isolated nor inverted and Removed";
  read.rule = *rule;
  return "";
}

std::string read_sequence(const Json& json, PreTokenizer& read) {
  const auto parts = json.find("pretokenizers");
  if (parts == json.end() || !parts->is_array() || parts->empty())
    return "its Sequence pre-tokenizer has no pretokenizers";
  for (const Json& part : *parts)
    if (const std::string type = text_at(part, "type"); type != "Split" && type != "ByteLevel")
      return fmt::format("llmc does not support its pre-tokenizer '{}'", shown_type(part));
  const Json& last = parts->back();
  if (parts->size() != 2 || text_at(parts->front(), "type") != "Split" || text_at(last, "type") != "ByteLevel" ||
      flag_at(last, "use_regex", true) || flag_at(last, "add_prefix_space", true))
    return "its Sequence pre-tokenizer is not a Split and a ByteLevel that neither splits nor adds a blank";
  read.byte_level = true;
  return read_split(parts->front(), read);
}

}  // namespace

std::string read_pre_tokenizer(const Json& json, const Normalizer& normalizer, PreTokenizer& read) {
  if (json.is_null()) return "";
  const std::string type = text_at(json, "type");
  if (type == "ByteLevel") return read_byte_level(json, read);
  if (type == "Metaspace") return read_metaspace(json, read);
  if (type == "Sequence") return read_sequence(json, read);
  if (type == "Split") {
    const auto pattern = json.find("pattern");
    if (pattern != json.end() && text_at(*pattern, "String") == " " && normalizer.replaces_blanks()) return "";
    return "its Split pre-tokenizer is not followed by ByteLevel";
  }
  return fmt::format("llmc does not support its pre-tokenizer '{}'", shown_type(json));
}

}  // namespace llmc
