// Classes of Unicode characters by which tokenizers of Hugging Face split text into words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace llmc {

enum class CharacterClass : std::uint8_t { other, letter, number, space };

/// Returns letter for \p{L}, number for \p{N}, space for \s (White_Space) of Unicode 16, as the package `tokenizers`
/// 0.23 has them. Characters that Debian's utf8proc (Unicode 15) does not know are in a table. `point` is at most
/// 0x10FFFF.
CharacterClass class_of(char32_t point);

/// A well-formed character of UTF-8 at the start of a text.
struct Character {
  char32_t point;
  std::size_t bytes;
};
/// Returns the first character of `text`, which is well-formed and not empty.
Character first_character(std::string_view text);

/// Returns well-formed UTF-8 in normalisation form C, as the package `tokenizers` makes it: combining marks that came
/// after Unicode 9 keep their places.
std::string to_nfc(std::string_view text);

}  // namespace llmc
