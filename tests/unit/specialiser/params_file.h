// Reads templates/params.h.
#pragma once

#include <string>
#include <vector>

#include "compiler/emit/specialiser/specialiser.h"
#include "compiler/emit/specialiser/tokens.h"
#include "error.h"

namespace llmc::emit {

/// Parses the declarations of a params.h. Throws Failure(internal) with file:line on anything but comments, directives,
/// `namespace llmc { }`, `constexpr` and `using` declarations.
inline std::vector<Param> parse_params(const std::string& text, const std::string& file) {
  std::vector<Token> tokens = tokenize(text);
  std::erase_if(tokens, [](const Token& t) { return t.kind == TokenKind::comment || t.kind == TokenKind::directive; });
  const auto fail = [&](std::size_t at, const std::string& what) {
    throw Failure(Exit::internal, file + ":" + std::to_string(line_of(text, at)) + ": " + what);
  };
  /// Returns the source text of tokens [first, last).
  const auto spelled = [&](std::size_t first, std::size_t last) {
    return text.substr(tokens[first].begin, tokens[last - 1].end - tokens[first].begin);
  };
  std::vector<Param> params;
  std::size_t at = 0;
  while (at < tokens.size()) {
    if (tokens[at].text == "}" || tokens[at].text == "{" || tokens[at].text == "namespace" ||
        tokens[at].text == "llmc") {
      ++at;
      continue;
    }
    std::size_t equals = at, end = at;
    while (end < tokens.size() && tokens[end].text != ";") ++end;
    while (equals < end && tokens[equals].text != "=") ++equals;
    const bool alias = tokens[at].text == "using";
    if ((!alias && tokens[at].text != "constexpr") || end == tokens.size() || equals + 1 >= end ||
        equals - at < (alias ? 2u : 3u) || tokens[equals - 1].kind != TokenKind::identifier) {
      fail(tokens[at].begin, "expected `constexpr type name = value;` or `using name = type;`");
    }
    params.push_back({alias ? "using" : spelled(at + 1, equals - 1), std::string(tokens[equals - 1].text),
                      spelled(equals + 1, end)});
    at = end + 1;
  }
  return params;
}

}  // namespace llmc::emit
