#include "data/bpe/byte_characters.h"

#include <array>

#include "data/bpe/characters.h"
#include "text/utf8.h"

namespace llmc {
namespace {

constexpr int kPoints = 0x100 + 68;

constexpr bool stands_for_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

/// Byte of each code point; -1: none.
constexpr std::array<int, kPoints> byte_table() {
  std::array<int, kPoints> bytes{};
  bytes.fill(-1);
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte)
    bytes[static_cast<std::size_t>(stands_for_itself(byte) ? byte : next++)] = byte;
  return bytes;
}
constexpr std::array<int, kPoints> kByteOf = byte_table();

}  // namespace

std::string character_of_byte(unsigned char byte) {
  std::size_t point = 0;
  while (kByteOf[point] != byte) ++point;
  if (point < 0x80) return {static_cast<char>(point)};
  return {static_cast<char>(0xc0 | point >> 6), static_cast<char>(0x80 | (point & 0x3f))};
}

std::optional<std::string> bytes_of_characters(std::string_view token) {
  std::string bytes;
  while (!token.empty()) {
    if (utf8_length(token) == 0) return std::nullopt;
    const Character character = first_character(token);
    if (character.point >= kPoints || kByteOf[character.point] < 0) return std::nullopt;
    bytes += static_cast<char>(kByteOf[character.point]);
    token.remove_prefix(character.bytes);
  }
  return bytes;
}

}  // namespace llmc
