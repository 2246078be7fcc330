// Makes untrusted text (from peers, files, file names) safe to print on a terminal.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "text/utf8.h"

namespace llmc {

/// Returns whether the character of `length` bytes is a control character: C0, DEL or C1.
inline bool is_control(std::string_view text, std::size_t length) {
  const auto first = static_cast<unsigned char>(text[0]);
  return first < 0x20 || first == 0x7f || (length == 2 && first == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0);
}

/// Returns whether it is a line separator or changes the direction of the following text.
inline bool turns_text(std::string_view text, std::size_t length) {
  if (length != 3) return false;
  const auto last = static_cast<unsigned char>(text[2]);
  return (text.starts_with("\xe2\x80") && last >= 0xa8 && last <= 0xae) ||
         (text.starts_with("\xe2\x81") && last >= 0xa6 && last <= 0xa9);
}

/// Escapes each byte, as "\x1b".
inline std::string as_hex(std::string_view bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string result;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    result.append("\\x").append(1, kDigits[byte >> 4]).append(1, kDigits[byte & 15]);
  }
  return result;
}

/// Returns `text` with control characters and invalid UTF-8 as \xNN. Line feeds and tabs stay.
inline std::string printable_text(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text), taken = std::max<std::size_t>(length, 1);
    const std::string_view character = text.substr(0, taken);
    const bool stays = text[0] == '\n' || text[0] == '\t' || (length > 0 && !is_control(text, length));
    result += stays ? std::string(character) : as_hex(character);
    text.remove_prefix(taken);
  }
  return result;
}

/// Same on one line: line feeds and tabs become blanks, characters that change the direction of writing become \xNN.
inline std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text), taken = std::max<std::size_t>(length, 1);
    const std::string_view character = text.substr(0, taken);
    if (text[0] == '\n' || text[0] == '\t')
      result += ' ';
    else
      result += turns_text(text, length) ? as_hex(character) : printable_text(character);
    text.remove_prefix(taken);
  }
  return result;
}

}  // namespace llmc
