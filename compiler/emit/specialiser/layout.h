// How a source text is laid out: its declarations at namespace scope, whole lines, and the comments that belong to
// them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/emit/specialiser/analysis.h"
#include "compiler/emit/specialiser/tokens.h"

namespace llmc::emit {

struct Layout {
  /// Declarations and definitions at namespace scope, from their first token to the semicolon or brace that ends them.
  std::vector<Range> chunks;
  /// Just past the `{` of the first `namespace llmc {`.
  std::optional<std::size_t> namespace_begin;
};

Layout lay_out(const std::vector<Token>& tokens);

/// The range with the comment lines directly above it, a comment after it on its last line, and that line's newline.
/// Where other text shares a line, the range stays as it is on that side.
Range with_comments(const std::string& text, const std::vector<Token>& tokens, Range range);

/// Past white space from `at`; before white space that ends at `at`.
std::size_t skip_space(const std::string& text, std::size_t at);
std::size_t back_over_space(const std::string& text, std::size_t at);

/// Past a comment that follows on the same line, else `at`.
std::size_t past_trailing_comment(const std::string& text, const std::vector<Token>& tokens, std::size_t at);

}  // namespace llmc::emit
