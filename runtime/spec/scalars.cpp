#include "spec/scalars.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace llmc::spec {
namespace {

struct Suffix {
  const char* text;
  std::int64_t factor;
};

constexpr std::int64_t kKi = 1024, kMi = kKi * 1024, kGi = kMi * 1024, kTi = kGi * 1024;
constexpr std::array<Suffix, 7> kCounts{
    {{"", 1}, {"K", 1000}, {"M", 1000000}, {"G", 1000000000}, {"Ki", kKi}, {"Mi", kMi}, {"Gi", kGi}}};
constexpr std::string_view kBillion = "B";  // of a count, which has G
constexpr std::array<Suffix, 18> kBytes{{{"", 1},
                                         {"B", 1},
                                         {"K", 1000},
                                         {"KB", 1000},
                                         {"M", 1000000},
                                         {"MB", 1000000},
                                         {"G", 1000000000},
                                         {"GB", 1000000000},
                                         {"Ki", kKi},
                                         {"KiB", kKi},
                                         {"Mi", kMi},
                                         {"MiB", kMi},
                                         {"Gi", kGi},
                                         {"GiB", kGi},
                                         {"Ti", kTi},
                                         {"TiB", kTi},
                                         {"T", 1000000000000},
                                         {"TB", 1000000000000}}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Moves digits, with single `_` between them, from the front of `text` to `digits`; false if a `_` is misplaced.
bool take_digits(std::string_view& text, std::string& digits) {
  const std::size_t before = digits.size();
  bool separator = false;
  while (!text.empty() && (is_digit(text[0]) || text[0] == '_')) {
    if (text[0] == '_') {
      if (separator || digits.size() == before) return false;
      separator = true;
    } else {
      separator = false;
      digits += text[0];
    }
    text.remove_prefix(1);
  }
  return !separator;
}

/// "1024" for "1,024", followed by the rest; nothing if the commas do not separate groups of three digits.
std::optional<std::string> without_commas(const std::string& digits, std::string_view rest) {
  if (digits.empty() || digits.size() > 3 || digits[0] == '0' || rest.empty() || rest[0] != ',') return {};
  std::string plain = digits;
  while (!rest.empty() && rest[0] == ',') {
    if (rest.size() < 4 || !is_digit(rest[1]) || !is_digit(rest[2]) || !is_digit(rest[3])) return {};
    plain += rest.substr(1, 3);
    rest.remove_prefix(4);
  }
  if (!rest.empty() && is_digit(rest[0])) return {};
  return plain + std::string(rest);
}

/// The suffix with other capitals, or G for a billion; empty: none is meant.
template <std::size_t N>
std::string suffix_meant(std::string_view text, const std::array<Suffix, N>& suffixes) {
  const auto small = [](std::string_view word) {
    std::string result;
    for (const char c : word) result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return result;
  };
  for (const Suffix& suffix : suffixes)
    if (small(text) == small(suffix.text)) return suffix.text;
  return small(text) == small(kBillion) ? "G" : "";
}

template <std::size_t N>
ParsedScalar<std::int64_t> parse_scaled(std::string_view text, const std::array<Suffix, N>& suffixes,
                                        const char* names) {
  const std::string_view whole = text;
  const bool negative = !text.empty() && text[0] == '-';
  if (negative) text.remove_prefix(1);
  if (!text.empty() && text[0] == '+') return {{}, "has a plus sign", std::string(text.substr(1))};
  std::string digits;
  if (!take_digits(text, digits)) return {{}, "has an underscore that is not between two digits", {}};
  if (digits.empty()) return {{}, "is not a number", {}};
  if (!text.empty() && text[0] == ',') {
    const std::optional<std::string> plain = without_commas(digits, text);
    return {{}, "has a comma", plain ? (negative ? "-" : "") + *plain : ""};
  }
  if (!text.empty() && (text[0] == '.' || text[0] == 'e' || text[0] == 'E')) {
    const ParsedScalar<double> real = parse_number(whole);
    if (!real.value || *real.value != std::floor(*real.value)) return {{}, "is not a whole number", {}};
    if (std::fabs(*real.value) >= 9.2e18) return {{}, "does not fit in 63 bits", {}};
    return {{}, "is not written as a whole number", fmt::format("{}", static_cast<std::int64_t>(*real.value))};
  }
  if (digits.size() > 1 && digits[0] == '0') {
    if (!text.empty() && (text[0] == 'x' || text[0] == 'o' || text[0] == 'b')) return {{}, "is not decimal", {}};
    const std::size_t first = digits.find_first_not_of('0');
    return {
        {}, "has a leading zero", (negative ? "-" : "") + (first == std::string::npos ? "0" : digits.substr(first))};
  }
  std::int64_t factor = 0;
  for (const Suffix& suffix : suffixes)
    if (text == suffix.text) factor = suffix.factor;
  if (factor == 0) {
    const std::string meant = suffix_meant(text, suffixes);
    return {{},
            fmt::format("does not end in one of {}", names),
            meant.empty() ? "" : (negative ? "-" : "") + digits + meant};
  }
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || __builtin_mul_overflow(value, factor, &value)) return {{}, "does not fit in 63 bits", {}};
  return {negative ? -value : value, {}, {}};
}

}  // namespace

std::optional<std::vector<std::int32_t>> parse_token_ids(std::string_view text) {
  std::vector<std::int32_t> ids;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    if (end > begin) {
      const std::optional<std::int64_t> id = parse_integer(text.substr(begin, end - begin)).value;
      if (!id || *id < 0 || *id > std::numeric_limits<std::int32_t>::max()) return {};
      ids.push_back(static_cast<std::int32_t>(*id));
    }
    begin = end + 1;
  }
  return ids;
}

ParsedScalar<std::int64_t> parse_integer(std::string_view text) {
  return parse_scaled(text, kCounts, "K, M, G, Ki, Mi, Gi");
}

ParsedScalar<std::int64_t> parse_bytes(std::string_view text) {
  return parse_scaled(text, kBytes, "KiB, MiB, GiB, TiB, KB, MB, GB, TB, B");
}

ParsedScalar<double> parse_number(std::string_view text) {
  std::string plain;
  if (!text.empty() && text[0] == '-') {
    plain += '-';
    text.remove_prefix(1);
  }
  if (!text.empty() && text[0] == '+') return {{}, "has a plus sign", std::string(text.substr(1))};
  if (!text.empty() && text[0] == '.' && text.size() > 1 && is_digit(text[1]))
    return {{}, "has no digit before the point", fmt::format("{}0{}", plain, text)};
  const std::size_t integer_begin = plain.size();
  if (!take_digits(text, plain)) return {{}, "has an underscore that is not between two digits", {}};
  const std::string integer = plain.substr(integer_begin);
  if (integer.empty()) return {{}, "is not a number", {}};
  if (integer.size() > 1 && integer[0] == '0') return {{}, "has a leading zero", {}};
  if (!text.empty() && text[0] == ',') {
    const std::string sign = plain.substr(0, integer_begin), decimals(text.substr(1));
    const bool fraction = !decimals.empty() && std::all_of(decimals.begin(), decimals.end(), is_digit);
    if (const auto whole = without_commas(integer, text)) return {{}, "has a comma", sign + *whole};
    return {{}, "has a comma", fraction ? sign + integer + "." + decimals : ""};
  }
  if (!text.empty() && text[0] == '.') {
    plain += '.';
    text.remove_prefix(1);
    const std::size_t before = plain.size();
    if (!take_digits(text, plain)) return {{}, "has an underscore that is not between two digits", {}};
    if (plain.size() == before) return {{}, "has no digit after the point", fmt::format("{}0{}", plain, text)};
  }
  if (!text.empty() && (text[0] == 'e' || text[0] == 'E')) {
    plain += 'e';
    text.remove_prefix(1);
    if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
      if (text[0] == '-') plain += '-';
      text.remove_prefix(1);
    }
    const std::size_t before = plain.size();
    while (!text.empty() && is_digit(text[0])) {
      plain += text[0];
      text.remove_prefix(1);
    }
    if (plain.size() == before) return {{}, "has no digits in its exponent", {}};
  }
  if (!text.empty() && text != "%") return {{}, "is not a number", {}};
  double value = 0;
  const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), value);
  if (error != std::errc() || !std::isfinite(value)) return {{}, "is outside the range of a double", {}};
  if (!text.empty()) return {{}, "has a percent sign", number_text(value / 100)};
  return {value, {}, {}};
}

ParsedScalar<double> parse_times(std::string_view text) {
  if (!text.ends_with('x') && !text.ends_with('X')) return {{}, "does not end in x", {}};
  ParsedScalar<double> number = parse_number(text.substr(0, text.size() - 1));
  if (!number.instead.empty()) number.instead += "x";
  if (number.value && text.ends_with('X')) return {{}, "does not end in x", times_text(*number.value)};
  return number;
}

std::string times_text(double times) { return number_text(times) + "x"; }

std::string number_text(double value) { return fmt::format("{}", value); }

std::string bytes_text(std::int64_t bytes) {
  for (const auto& [name, factor] : {Suffix{"GiB", kGi}, Suffix{"MiB", kMi}, Suffix{"KiB", kKi}})
    if (bytes >= factor && bytes % factor == 0) return fmt::format("{}{}", bytes / factor, name);
  return fmt::format("{}", bytes);
}

}  // namespace llmc::spec
