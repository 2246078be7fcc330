// Splits C++ text into tokens with offsets: enough to find names, comments and blocks without a compiler.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace llmc::emit {

enum class TokenKind { identifier, number, literal, punctuation, comment, directive };

/// Bytes [begin, end) of the text. A directive is a whole preprocessor line with its continuation lines, up to its
/// newline or the comment that ends it.
struct Token {
  TokenKind kind;
  std::size_t begin, end;
  std::string_view text;
};

/// Returns the tokens of `text`, which must outlive them. Everything between tokens is white space.
std::vector<Token> tokenize(std::string_view text);

/// Returns the identifiers inside a directive, with offsets into the text that the directive came from.
std::vector<Token> directive_identifiers(const Token& directive);

/// Whether a name may contain this character.
bool in_name(char c);
bool is_identifier(std::string_view text);

/// Returns the 1-based line of an offset.
int line_of(std::string_view text, std::size_t offset);

}  // namespace llmc::emit
