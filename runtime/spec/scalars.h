// Parses numbers of a spec: decimal, `_` between digits, and K, M, G, Ki, Mi, Gi after whole numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llmc::spec {

/// A value, or the text's error ("has a leading zero") and advice (may be empty).
template <typename T>
struct ParsedScalar {
  std::optional<T> value;
  std::string problem, instead;
};

/// [-]digits with an optional suffix; K, M, G are powers of 1000 and Ki, Mi, Gi of 1024.
ParsedScalar<std::int64_t> parse_integer(std::string_view text);

/// A whole number with Ki, Mi, Gi, Ti or KiB, MiB, GiB, TiB, K to T, KB to TB, B or nothing; in bytes.
ParsedScalar<std::int64_t> parse_bytes(std::string_view text);

/// [-]digits[.digits][e[+-]digits]; finite.
ParsedScalar<double> parse_number(std::string_view text);

/// "20x": a number and an x.
ParsedScalar<double> parse_times(std::string_view text);
std::string times_text(double times);

/// Token ids separated by blanks, from 0 to 2^31 - 1; nothing if one is invalid.
std::optional<std::vector<std::int32_t>> parse_token_ids(std::string_view text);

/// Shortest text that parse_number reads back as the same value.
std::string number_text(double value);

/// "80GiB" if that is exact, else plain bytes.
std::string bytes_text(std::int64_t bytes);

}  // namespace llmc::spec
