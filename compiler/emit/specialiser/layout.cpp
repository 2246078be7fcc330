#include "compiler/emit/specialiser/layout.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace llmc::emit {
namespace {

bool is(const Token& token, std::string_view text) { return token.text == text; }

/// Returns the index of the last token of the declaration that starts at `first`.
std::size_t last_of(const std::vector<Token>& tokens, std::size_t first) {
  int depth = 0;
  for (std::size_t at = first; at < tokens.size(); ++at) {
    const Token& token = tokens[at];
    if (token.kind != TokenKind::punctuation) continue;
    if (is(token, "{") || is(token, "(") || is(token, "[")) ++depth;
    if (is(token, "}") || is(token, ")") || is(token, "]")) --depth;
    if (depth == 0 && is(token, ";")) return at;
    if (depth != 0 || !is(token, "}")) continue;
    // A function's body ends its declaration; an initialiser or a class body may be followed by more of it.
    std::size_t next = at + 1;
    while (next < tokens.size() && tokens[next].kind == TokenKind::comment) ++next;
    const bool goes_on = next < tokens.size() && tokens[next].kind == TokenKind::punctuation &&
                         std::string_view(";,+-*/.()?").find(tokens[next].text) != std::string_view::npos;
    if (!goes_on) return at;
  }
  return tokens.size() - 1;
}

std::size_t line_begin(const std::string& text, std::size_t at) {
  return at == 0 ? 0 : text.rfind('\n', at - 1) + 1;  // npos + 1 == 0
}

bool only_space(const std::string& text, std::size_t begin, std::size_t end) {
  return std::all_of(text.begin() + begin, text.begin() + end, [](unsigned char c) { return std::isspace(c); });
}

}  // namespace

SourceLayout lay_out(const std::vector<Token>& tokens) {
  SourceLayout layout;
  for (std::size_t at = 0; at < tokens.size(); ++at) {
    const Token& token = tokens[at];
    if (token.kind == TokenKind::comment || token.kind == TokenKind::directive || is(token, "}") || is(token, ";"))
      continue;
    if (is(token, "namespace")) {
      std::size_t open = at;
      while (open < tokens.size() && !is(tokens[open], "{") && !is(tokens[open], ";")) ++open;
      if (open < tokens.size() && is(tokens[open], "{")) {
        if (!layout.namespace_begin && open == at + 2 && is(tokens[at + 1], "llmc"))
          layout.namespace_begin = tokens[open].end;
        at = open;
        continue;
      }
    }
    const std::size_t last = last_of(tokens, at);
    layout.chunks.push_back({token.begin, tokens[last].end});
    at = last;
  }
  return layout;
}

std::size_t skip_space(const std::string& text, std::size_t at) {
  while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at]))) ++at;
  return at;
}

std::size_t back_over_space(const std::string& text, std::size_t at) {
  while (at > 0 && std::isspace(static_cast<unsigned char>(text[at - 1]))) --at;
  return at;
}

std::size_t past_trailing_comment(const std::string& text, const std::vector<Token>& tokens, std::size_t at) {
  const std::size_t next = text.find_first_not_of(" \t", at);
  for (const Token& token : tokens) {
    if (token.begin == next && token.kind == TokenKind::comment && text.find('\n', token.begin) >= token.end)
      return token.end;
  }
  return at;
}

TextRange with_comments(const std::string& text, const std::vector<Token>& tokens, TextRange range) {
  const std::size_t first_line = line_begin(text, range.begin);
  const std::size_t end = past_trailing_comment(text, tokens, range.end);
  const std::size_t newline = std::min(text.find('\n', end), text.size());
  if (!only_space(text, first_line, range.begin) || !only_space(text, end, newline)) return range;
  range = {first_line, std::min(newline + 1, text.size())};
  for (auto token = tokens.rbegin(); token != tokens.rend(); ++token) {
    if (token->begin >= range.begin) continue;
    const std::size_t start = line_begin(text, token->begin);
    // Directly above: only the end of its own line is in between.
    const bool above = token->kind == TokenKind::comment && only_space(text, start, token->begin) &&
                       text.find('\n', token->end) + 1 == range.begin && only_space(text, token->end, range.begin);
    if (!above) break;
    range.begin = start;
  }
  return range;
}

}  // namespace llmc::emit
