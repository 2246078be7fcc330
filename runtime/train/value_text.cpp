#include "train/value_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

namespace llmc {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Takes digits with single `_` between them off the front of `text`; nothing when there are none or a `_` stands
/// wrong.
std::optional<std::string> take_digits(std::string_view& text) {
  std::string digits;
  bool separator = false;
  for (; !text.empty() && (is_digit(text[0]) || text[0] == '_'); text.remove_prefix(1)) {
    if (text[0] != '_') digits += text[0];
    if (text[0] == '_' && (separator || digits.empty())) return std::nullopt;
    separator = text[0] == '_';
  }
  if (digits.empty() || separator) return std::nullopt;
  return digits;
}

std::optional<std::int64_t> factor_of(std::string_view suffix, bool bytes) {
  if (bytes && suffix.ends_with('B')) suffix.remove_suffix(1);
  if (suffix.empty()) return 1;
  const std::string_view letters = bytes ? "KMGT" : "KMG";
  const std::size_t power = letters.find(suffix[0]);
  if (power == std::string_view::npos || (suffix.size() > 1 && suffix != std::string{suffix[0], 'i'}))
    return std::nullopt;
  std::int64_t factor = 1;
  for (std::size_t i = 0; i <= power; ++i) factor *= suffix.size() == 2 ? 1024 : 1000;
  return factor;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// Takes one item off the front of `text`, up to a comma or the end.
std::optional<std::string> take_item(std::string_view& text) {
  text = trimmed(text);
  if (!text.starts_with('"')) {
    const std::string_view item = trimmed(text.substr(0, text.find(',')));
    text.remove_prefix(std::min(text.find(','), text.size()));
    if (item.empty() || item.find_first_of("[]{}\"'#") != std::string_view::npos) return std::nullopt;
    return std::string(item);
  }
  std::size_t end = 1;
  while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
  if (end >= text.size()) return std::nullopt;
  const nlohmann::json item = nlohmann::json::parse(text.substr(0, end + 1), nullptr, false);
  text = trimmed(text.substr(end + 1));
  if (!item.is_string() || (!text.empty() && text[0] != ',')) return std::nullopt;
  return item.get<std::string>();
}

}  // namespace

std::optional<std::int64_t> parse_integer(std::string_view text, bool bytes) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  const std::optional<std::string> digits = take_digits(text);
  if (!digits || (digits->size() > 1 && digits->front() == '0')) return std::nullopt;
  const std::optional<std::int64_t> factor = factor_of(text, bytes);
  std::int64_t value = 0;
  const auto parsed = std::from_chars(digits->data(), digits->data() + digits->size(), value);
  if (!factor || parsed.ec != std::errc() || __builtin_mul_overflow(value, *factor, &value)) return std::nullopt;
  return negative ? -value : value;
}

std::optional<double> parse_number(std::string_view text) {
  std::string plain;
  if (text.starts_with('-')) {
    plain = "-";
    text.remove_prefix(1);
  }
  const std::optional<std::string> whole = take_digits(text);
  if (!whole || (whole->size() > 1 && whole->front() == '0')) return std::nullopt;
  plain += *whole;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    const std::optional<std::string> fraction = take_digits(text);
    if (!fraction) return std::nullopt;
    plain += "." + *fraction;
  }
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(1);
    const bool sign = text.starts_with('-') || text.starts_with('+');
    plain += text.starts_with('-') ? "e-" : "e";
    if (sign) text.remove_prefix(1);
    if (text.empty() || !std::all_of(text.begin(), text.end(), is_digit)) return std::nullopt;
    plain += text;
    text = {};
  }
  double value = 0;
  const auto parsed = std::from_chars(plain.data(), plain.data() + plain.size(), value);
  if (!text.empty() || parsed.ec != std::errc() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<std::vector<std::string>> parse_list(std::string_view text) {
  text = trimmed(text);
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return std::nullopt;
  text = trimmed(text.substr(1, text.size() - 2));
  std::vector<std::string> items;
  while (!text.empty()) {
    std::optional<std::string> item = take_item(text);
    if (!item) return std::nullopt;
    items.push_back(std::move(*item));
    if (text.empty()) break;
    text = trimmed(text.substr(1));
    if (text.empty()) return std::nullopt;  // "[a,]"
  }
  return items;
}

std::optional<std::string> nearest_word(std::string_view word, const std::vector<std::string>& candidates) {
  std::optional<std::string> best;
  std::size_t best_distance = std::max<std::size_t>(word.size() / 3, 1) + 1;
  for (const std::string& candidate : candidates) {
    std::vector<std::size_t> row(candidate.size() + 1);
    for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= word.size(); ++i) {
      std::size_t diagonal = row[0]++;
      for (std::size_t j = 1; j < row.size(); ++j) {
        const std::size_t substituted = diagonal + (word[i - 1] != candidate[j - 1]);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
      }
    }
    if (row.back() >= best_distance) continue;
    best_distance = row.back();
    best = candidate;
  }
  return best;
}

}  // namespace llmc
