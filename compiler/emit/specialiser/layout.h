// Layout of a source text: declarations at namespace scope, whole lines, and their comments.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/emit/specialiser/analysis.h"
#include "compiler/emit/specialiser/tokens.h"

namespace llmc::emit {

struct SourceLayout {
  /// Declarations and definitions at namespace scope, from the first token to the final semicolon or brace.
  std::vector<TextRange> chunks;
  /// Offset after the `{` of the first `namespace llmc {`.
  std::optional<std::size_t> namespace_begin;
};

SourceLayout lay_out(const std::vector<Token>& tokens);

/// Extends the range by the comment lines directly above it, a comment after it on its last line, and that line's
/// newline. A side that shares its line with other text is not extended.
TextRange with_comments(const std::string& text, const std::vector<Token>& tokens, TextRange range);

/// Skips white space after `at`; before `at`.
std::size_t skip_space(const std::string& text, std::size_t at);
std::size_t back_over_space(const std::string& text, std::size_t at);

/// Skips a comment that follows on the same line, else returns `at`.
std::size_t past_trailing_comment(const std::string& text, const std::vector<Token>& tokens, std::size_t at);

}  // namespace llmc::emit
