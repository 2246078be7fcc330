#include "spec/fingerprint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

#include "spec/recompute.h"
#include "spec/scalars.h"

namespace llmc::spec {

std::string yaml_string(const std::string& text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '/' || c == '_'; };
  const auto inner = [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '-'; };
  static const char* const kReserved[] = {"true", "false", "null", "Null", "NULL", "True", "TRUE", "False", "FALSE"};
  const bool plain =
      !text.empty() && (letter(text[0]) || text[0] == '.') && std::all_of(text.begin(), text.end(), inner) &&
      std::none_of(std::begin(kReserved), std::end(kReserved), [&](const char* word) { return text == word; });
  if (plain) return text;
  std::string result = "\"";
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      result += std::string("\\") + c;
    else if (c == '\n')
      result += "\\n";
    else if (c == '\t')
      result += "\\t";
    else if (byte < 0x20 || byte == 0x7f)
      result += fmt::format("\\x{:02x}", byte);
    else
      result += c;
  }
  return result + "\"";
}

namespace {

std::string entry_text(const Key& row, const Entry& entry) {
  if (is_short(row, entry)) return value_text(*row.member(row.shorthand), entry.values.at(row.shorthand));
  std::string items;
  for (const Key& member : row.members)
    if (const Value value = value_in(entry, member); present(value))
      items += fmt::format("{}{}: {}", items.empty() ? "" : ", ", member.leaf(), value_text(member, value));
  return "{" + items + "}";
}

}  // namespace

std::string value_text(const Key& key, const Value& value) {
  if (std::holds_alternative<std::monostate>(value)) return "none";
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* number = std::get_if<std::int64_t>(&value))
    return key.type == Type::bytes ? bytes_text(*number) : fmt::format("{}", *number);
  if (const auto* number = std::get_if<double>(&value)) return number_text(*number);
  if (const auto* text = std::get_if<std::string>(&value)) return key.or_times ? *text : yaml_string(*text);
  if (const auto* recompute = std::get_if<Recompute>(&value)) return recompute_text(*recompute);
  if (const auto* set = std::get_if<LayerSet>(&value))
    return set->every ? fmt::format("{}", set->every) : fmt::format("[{}]", fmt::join(set->layers, ", "));
  std::string items;
  const auto add = [&](const std::string& item) { items += (items.empty() ? "" : ", ") + item; };
  if (const auto* entries = std::get_if<Entries>(&value)) {
    for (const Entry& entry : *entries) add((key.type == Type::map ? entry.name + ": " : "") + entry_text(key, entry));
    return (key.type == Type::map ? "{" : "[") + items + (key.type == Type::map ? "}" : "]");
  }
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value))
    for (const std::string& text : *texts) add(yaml_string(text));
  if (const auto* numbers = std::get_if<std::vector<double>>(&value))
    for (double number : *numbers) add(number_text(number));
  return "[" + items + "]";
}

namespace {

/// Whether an llmc without the key would have behaved the same.
bool is_as_before(const Key& key, const Value& value, const std::string& text, const Spec& spec) {
  if (!key.newer) return false;
  return text == key.fallback || !present(value) ||
         (!key.derivation.empty() && key.derive(spec) == std::optional<Value>(value));
}

/// "key.path=value\n", or nothing if an llmc without the key would have behaved the same.
std::string hashed_line(const Schema& schema, const Key& key, const Spec& spec) {
  const Value value = key.get(spec);
  const std::string text = value_text(key, value);
  if (!schema.applies(key, spec) || is_as_before(key, value, text, spec)) return "";
  return key.path + "=" + text + "\n";
}

std::string hash(const std::string& text) {
  const XXH128_hash_t value = XXH3_128bits(text.data(), text.size());
  return fmt::format("{:016x}{:016x}", value.high64, value.low64);
}

}  // namespace

std::string canonical_text(const Spec& spec, const Schema& schema) {
  Spec hashed = spec;
  // A chunk of all rows was hashed as `auto` before choices were hashed, so this keeps fingerprints of those runs.
  if (spec.memory.loss_chunk == spec.batch.micro_batch * spec.batch.sequence_length) hashed.memory.loss_chunk = 0;
  std::string text = "llmc-spec-1\n";
  for (const Key& key : schema.keys())
    if (key.stage == Stage::compiled) text += hashed_line(schema, key, hashed);
  return text;
}

std::string fingerprint(const Spec& spec) { return hash(canonical_text(spec)); }

std::string model_fingerprint(const Spec& spec) {
  std::string text = "llmc-model-1\n";
  for (const Key& key : keys())
    if (is_model(key)) text += hashed_line(spec_schema(), key, spec);
  return hash(text);
}

}  // namespace llmc::spec
