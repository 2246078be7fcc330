// Strict UTF-8.
#pragma once

#include <cstddef>
#include <string_view>

namespace llmc {

/// Bytes of the character that `text` starts with, 1 to 4; 0 when it does not start with a well-formed one (overlong
/// forms, surrogates and everything past U+10FFFF are not well-formed) or is empty.
std::size_t utf8_length(std::string_view text);

bool is_utf8(std::string_view text);

/// The largest character boundary of well-formed `text` that is <= at.
std::size_t utf8_floor(std::string_view text, std::size_t at);

/// Bytes at the end of `text`, 0 to 3, that begin a character whose further bytes are still to come.
std::size_t utf8_unfinished(std::string_view text);

}  // namespace llmc
