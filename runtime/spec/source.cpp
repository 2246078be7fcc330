#include "spec/source.h"

#include <algorithm>

namespace llmc::spec {

Position position_of(const Source& source, std::size_t offset) {
  Position position;
  offset = std::min(offset, source.text.size());
  for (std::size_t i = 0; i < offset; ++i) {
    const auto byte = static_cast<unsigned char>(source.text[i]);
    if (byte == '\n') {
      ++position.line;
      position.column = 1;
    } else if ((byte & 0xc0) != 0x80) {
      ++position.column;
    }
  }
  return position;
}

std::size_t code_point_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned>(static_cast<unsigned char>(text[i])); };
  if (text.empty()) return 0;
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xc2 && first <= 0xdf   ? 2
                             : first >= 0xe0 && first <= 0xef ? 3
                             : first >= 0xf0 && first <= 0xf4 ? 4
                                                              : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  if (first == 0xe0 && byte(1) < 0xa0) return 0;  // overlong
  if (first == 0xed && byte(1) > 0x9f) return 0;  // surrogate
  if (first == 0xf0 && byte(1) < 0x90) return 0;  // overlong
  if (first == 0xf4 && byte(1) > 0x8f) return 0;  // above U+10FFFF
  return length;
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  return '"' + printable(text.substr(0, utf8_floor(text, kLongest))) + (text.size() > kLongest ? "...\"" : "\"");
}

}  // namespace llmc::spec
