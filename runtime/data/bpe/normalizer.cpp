#include "data/bpe/normalizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "data/bpe/characters.h"
#include "text/printable.h"
#include "text/utf8.h"

namespace llmc {

namespace {

constexpr std::size_t kMostSteps = 16, kMostBytes = 4096;  // bytes: of the text that a step inserts
constexpr double kMostGrowth = 64;                         // of a text of one byte

}  // namespace

using Json = nlohmann::json;

std::string text_at(const Json& object, const char* key) {
  if (!object.is_object()) return "";
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

bool flag_at(const Json& object, const char* key, bool absent) {
  if (!object.is_object()) return absent;
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() ? found->get<bool>() : absent;
}

std::string shown_type(const Json& part) {
  const std::string type = text_at(part, "type");
  return is_utf8(type) ? printable(type.substr(0, utf8_floor(type, 40))) : "";
}

std::string replace_each(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t found = std::min(text.find(from, at), text.size());
    result += text.substr(at, found - at);
    if (found < text.size()) result += to;
    at = found + from.size();
  }
  return result;
}

std::string Normalizer::add(const Json& normalizer) {
  if (normalizer.is_null()) return "";
  const std::string type = text_at(normalizer, "type");
  if (type == "Sequence") {
    const auto parts = normalizer.find("normalizers");
    if (parts == normalizer.end() || !parts->is_array()) return "its Sequence normalizer has no normalizers";
    for (const Json& part : *parts) {
      if (text_at(part, "type") == "Sequence") return "its normalizers are nested";
      if (std::string problem = add(part); !problem.empty()) return problem;
    }
  } else if (type == "NFC") {
    return push({Step::Kind::nfc, "", ""});
  } else if (type == "Prepend") {
    if (text_at(normalizer, "prepend").empty()) return "its Prepend normalizer prepends nothing";
    return push({Step::Kind::prepend, "", text_at(normalizer, "prepend")});
  } else if (type == "Replace") {
    const auto pattern = normalizer.find("pattern");
    const std::string from = pattern == normalizer.end() ? "" : text_at(*pattern, "String");
    if (from.empty()) return "its Replace normalizer does not replace plain text";
    return push({Step::Kind::replace, from, text_at(normalizer, "content")});
  } else {
    return fmt::format("llmc does not support its normalizer '{}'", shown_type(normalizer));
  }
  return "";
}

std::string Normalizer::push(Step step) {
  if (steps_.size() == kMostSteps) return fmt::format("it has more than {} normalizers", kMostSteps);
  if (step.to.size() > kMostBytes)
    return fmt::format("one of its normalizers inserts {} bytes, but llmc reads at most {}", step.to.size(),
                       kMostBytes);
  const auto inserted = static_cast<double>(step.to.size());
  if (step.kind == Step::Kind::prepend) growth_ *= 1 + inserted;
  if (step.kind == Step::Kind::replace) growth_ *= std::max(inserted / static_cast<double>(step.from.size()), 1.0);
  if (growth_ > kMostGrowth)
    return fmt::format("its normalizers can make a text more than {} times as long", kMostGrowth);
  steps_.push_back(std::move(step));
  return "";
}

bool Normalizer::replaces_blanks() const {
  return std::ranges::any_of(steps_, [](const Step& step) {
    return step.kind == Step::Kind::replace && step.from == " " && step.to.find(' ') == std::string::npos;
  });
}

std::string Normalizer::apply(std::string_view text) const {
  std::string result(text);
  for (const Step& step : steps_) switch (step.kind) {
      case Step::Kind::nfc:
        if (std::ranges::any_of(result, [](char byte) { return static_cast<unsigned char>(byte) >= 0x80; }))
          result = to_nfc(result);
        break;
      case Step::Kind::prepend:
        if (!result.empty()) result.insert(0, step.to);
        break;
      case Step::Kind::replace: result = replace_each(result, step.from, step.to); break;
    }
  return result;
}

}  // namespace llmc
