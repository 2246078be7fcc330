// Decodes strict UTF-8.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace llmc {

/// Length in bytes, 1 to 4, of the first character of `text`. 0 if `text` is empty or starts with no well-formed
/// character: overlong forms, surrogates and values past U+10FFFF are malformed.
inline std::size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  if (first == 0xe0 && byte(1) < 0xa0) return 0;   // overlong
  if (first == 0xed && byte(1) >= 0xa0) return 0;  // surrogates
  if (first == 0xf0 && byte(1) < 0x90) return 0;   // overlong
  if (first == 0xf4 && byte(1) >= 0x90) return 0;  // past U+10FFFF
  return length;
}

bool is_utf8(std::string_view text);

/// The largest character boundary of well-formed `text` that is <= at.
inline std::size_t utf8_floor(std::string_view text, std::size_t at) {
  at = std::min(at, text.size());
  while (at > 0 && at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

/// Bytes at the end of `text`, 0 to 3, of an incomplete character.
std::size_t utf8_unfinished(std::string_view text);

}  // namespace llmc
