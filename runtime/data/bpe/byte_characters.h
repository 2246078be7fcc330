// Characters that stand for bytes in the names of byte-level tokens.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace llmc {

/// Returns the character of a byte: printable Latin-1 is itself, the other 68 bytes follow from U+0100 on, in order
/// (GPT-2's bytes_to_unicode).
std::string character_of_byte(unsigned char byte);

/// Returns the bytes that a token's characters stand for; nothing if one stands for none.
std::optional<std::string> bytes_of_characters(std::string_view token);

}  // namespace llmc
