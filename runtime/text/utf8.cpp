#include "text/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace llmc {

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    std::uint64_t eight;
    if (text.size() >= 8 && (std::memcpy(&eight, text.data(), 8), (eight & 0x8080808080808080u) == 0)) {
      text.remove_prefix(8);
      continue;
    }
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::size_t utf8_unfinished(std::string_view text) {
  for (std::size_t length = 1; length <= std::min<std::size_t>(3, text.size()); ++length) {
    const auto first = static_cast<unsigned char>(text[text.size() - length]);
    if ((first & 0xc0) == 0x80) continue;  // not a character's first byte
    const std::size_t whole = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 1;
    return first <= 0xf4 && whole > length ? length : 0;
  }
  return 0;
}

}  // namespace llmc
