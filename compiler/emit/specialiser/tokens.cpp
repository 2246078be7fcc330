#include "compiler/emit/specialiser/tokens.h"

#include <algorithm>
#include <cctype>

namespace llmc::emit {
namespace {

bool starts_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }

/// Returns the offset after the string or character literal whose opening quote is at `at`.
std::size_t quoted_end(std::string_view text, std::size_t at) {
  const char quote = text[at++];
  while (at < text.size() && text[at] != quote) at += text[at] == '\\' ? 2 : 1;
  return std::min(at + 1, text.size());
}

/// Returns the offset after `R"tag(...)tag"`, whose quote is at `at`.
std::size_t raw_string_end(std::string_view text, std::size_t at) {
  const std::size_t open = text.find('(', at);
  if (open == std::string_view::npos) return text.size();
  std::string close(text.substr(at, open - at + 1));  // "tag(, to become )tag"
  close.front() = ')';
  close.back() = '"';
  const std::size_t end = text.find(close, open);
  return end == std::string_view::npos ? text.size() : end + close.size();
}

std::size_t comment_end(std::string_view text, std::size_t at) {
  if (text[at + 1] == '/') return std::min(text.find('\n', at), text.size());
  const std::size_t close = text.find("*/", at + 2);
  return close == std::string_view::npos ? text.size() : close + 2;
}

bool opens_comment(std::string_view text, std::size_t at) {
  return text[at] == '/' && at + 1 < text.size() && (text[at + 1] == '/' || text[at + 1] == '*');
}

/// Returns the end of a number. A digit separator belongs to it, a sign only after an exponent.
std::size_t number_end(std::string_view text, std::size_t at) {
  const bool hexadecimal = text.substr(at, 2) == "0x" || text.substr(at, 2) == "0X";
  for (++at; at < text.size(); ++at) {
    const char before = static_cast<char>(std::tolower(static_cast<unsigned char>(text[at - 1])));
    const bool signed_exponent = (text[at] == '+' || text[at] == '-') && before == (hexadecimal ? 'p' : 'e');
    const bool separator = text[at] == '\'' && at + 1 < text.size() && in_name(text[at + 1]);
    if (!in_name(text[at]) && text[at] != '.' && !signed_exponent && !separator) break;
  }
  return at;
}

std::size_t directive_end(std::string_view text, std::size_t at) {
  while (at < text.size() && text[at] != '\n' && !opens_comment(text, at)) {
    if (text[at] == '"') {
      at = quoted_end(text, at);
    } else {
      at += text[at] == '\\' ? 2 : 1;
    }
  }
  at = std::min(at, text.size());
  while (text[at - 1] == ' ' || text[at - 1] == '\t') --at;
  return at;
}

}  // namespace

bool in_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

std::vector<Token> tokenize(std::string_view text) {
  std::vector<Token> tokens;
  bool line_start = true;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (std::isspace(static_cast<unsigned char>(c))) {
      line_start |= c == '\n';
      ++at;
      continue;
    }
    std::size_t end = at + 1;
    TokenKind kind = TokenKind::punctuation;
    if (opens_comment(text, at)) {
      kind = TokenKind::comment;
      end = comment_end(text, at);
    } else if (c == '#' && line_start) {
      kind = TokenKind::directive;
      end = directive_end(text, at);
    } else if (starts_name(c)) {
      kind = TokenKind::identifier;
      while (end < text.size() && in_name(text[end])) ++end;
      if (end < text.size() && text[end] == '"' && text[end - 1] == 'R') {
        kind = TokenKind::literal;
        end = raw_string_end(text, end);
      }
    } else if (std::isdigit(static_cast<unsigned char>(c)) ||
               (c == '.' && end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])))) {
      kind = TokenKind::number;
      end = number_end(text, at);
    } else if (c == '"' || c == '\'') {
      kind = TokenKind::literal;
      end = quoted_end(text, at);
    }
    if (kind != TokenKind::comment) line_start = false;
    tokens.push_back({kind, at, end, text.substr(at, end - at)});
    at = end;
  }
  return tokens;
}

std::vector<Token> directive_identifiers(const Token& directive) {
  std::vector<Token> names;
  for (Token token : tokenize(directive.text.substr(1))) {
    token.begin += directive.begin + 1;
    token.end += directive.begin + 1;
    if (token.kind == TokenKind::identifier) names.push_back(token);
  }
  return names;
}

bool is_identifier(std::string_view text) {
  return !text.empty() && starts_name(text[0]) && std::all_of(text.begin(), text.end(), in_name);
}

int line_of(std::string_view text, std::size_t offset) {
  return 1 + static_cast<int>(std::count(text.begin(), text.begin() + std::min(offset, text.size()), '\n'));
}

}  // namespace llmc::emit
