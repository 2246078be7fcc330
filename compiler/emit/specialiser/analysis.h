// Clang's analysis of a template as plain data: offsets into its text, no AST.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/emit/specialiser/specialiser.h"

namespace llmc::emit {

/// Bytes [begin, end) of the template's text.
struct TextRange {
  std::size_t begin = 0, end = 0;
  bool contains(std::size_t at) const { return begin <= at && at < end; }
};

/// An `if constexpr` whose condition is known.
struct Prune {
  TextRange statement;
  TextRange taken;                    // the branch that stays, with its braces; empty if none stays
  bool braced = false;                // taken is a compound statement
  bool in_block = false;              // the statement is directly in a compound statement
  bool must_scope = false;            // the branch declares something whose lifetime ends with it
  std::vector<std::string> declared;  // names declared directly in the branch
};

/// A constant expression that mentions a params name, and the literal that replaces it.
struct Fold {
  TextRange expression;
  std::string literal;
};

/// A declaration that is dropped if the remaining text mentions none of its names: at namespace scope, or in a block a
/// constant, an alias, or a variable that the template marks [[maybe_unused]].
struct Declaration {
  std::size_t location = 0;  // of the name
  TextRange statement;       // empty at namespace scope, where `location` identifies it
  std::vector<std::string> names;
  bool always = false;  // operators: found by type, not by name
};

struct Analysis {
  std::vector<Prune> prunes;
  std::vector<Fold> folds;
  std::vector<Declaration> declarations;
  std::vector<TextRange> checked_asserts;       // static_asserts that mention a params name: they passed
  std::vector<TextRange> macro_uses;            // macro invocations with arguments
  std::optional<std::string> entry;             // text between the parentheses of its declaration
  std::map<std::string, std::string> literals;  // params constant -> text that replaces a direct reference
  std::map<std::string, std::string> of_arch;   // headers' constants of the instruction set that the text depends on
};

/// Parses the template with its params for the target. Throws Failure(internal) with file:line on any diagnostic.
Analysis analyse(const SpecialiseInput& input);

/// Contents of the repository's .clang-format.
inline constexpr char kFormatStyle[] =
    "{BasedOnStyle: Google, ColumnLimit: 120, DerivePointerAlignment: false, PointerAlignment: Left, "
    "AllowShortCaseLabelsOnASingleLine: true}";

}  // namespace llmc::emit
