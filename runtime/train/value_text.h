// Values as a command line spells them: decimal numbers with `_` and K, M, G, Ki, Mi, Gi, words, lists.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llmc {

/// [-]digits with an optional suffix: K, M, G are powers of 1000, Ki, Mi, Gi of 1024; with `bytes` also T, Ti and a B
/// at the end (KiB, MB, B). `_` may stand between digits. No plus sign, no leading zeros, no overflow of 63 bits.
std::optional<std::int64_t> parse_integer(std::string_view text, bool bytes = false);

/// [-]digits[.digits][e[+-]digits], finite.
std::optional<double> parse_number(std::string_view text);

/// "[a, b]": items are bare words, or in double quotes as in JSON. Nothing when it is no list.
std::optional<std::vector<std::string>> parse_list(std::string_view text);

/// The candidate at the smallest edit distance when it is at most a third of the word, else nothing.
std::optional<std::string> nearest_word(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace llmc
