// A source text and locations in it: every key and value keeps its span, for messages and origins.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "text/printable.h"

namespace llmc::spec {

struct Source {
  std::string name;  // path as the user wrote it, or "command line"
  std::string text;  // the whole file, or one override "key.path=value"
  bool command_line = false;
};

/// Bytes [begin, end) of a source.
struct Span {
  const Source* source = nullptr;
  std::size_t begin = 0, end = 0;
};

/// 1-based; columns count code points.
struct Position {
  int line = 1, column = 1;
};

Position position_of(const Source& source, std::size_t offset);

using llmc::printable;

/// Beginning of a text, made printable(), in double quotes.
std::string in_quotes(std::string_view text);

/// Bytes of the code point at the start of `text`: 1 to 4, or 0 if it is not strict UTF-8 (overlong forms, surrogates
/// and values above U+10FFFF are not).
std::size_t code_point_length(std::string_view text);

}  // namespace llmc::spec
