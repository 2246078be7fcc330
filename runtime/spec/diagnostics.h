// Errors of a spec with locations and advice, formatted as text with a caret and as JSON.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "spec/source.h"

namespace llmc::spec {

/// One line of the user's text with a marked range. line == 0: the location has no text (an unreadable file).
struct Location {
  std::string file;
  bool command_line = false;  // the text is an override; line and column are not shown
  int line = 0, column = 0;   // 1-based; the column counts code points
  std::string text;           // the line, made printable, and shortened around the range if it is long
  int caret = 0, width = 0;   // code points of `text` before the range, and in it
  std::string note;           // reason for showing this location; empty for the first one
};

/// A change of the spec that may fix an error: keys to write, one to remove, or one to rename.
struct Edit {
  std::vector<std::pair<std::string, std::string>> write;  // key path and value, as YAML
  std::string remove;                                      // key path
  std::string from, to;                                    // key paths: the value moves
  bool meant = false;                                      // probably a slip: "did you mean ...?"
  std::string text;                                        // wording, unless it follows the rule
};

/// Returns whether the spec with this edit no longer has the error, and has no new one.
using Sound = std::function<bool(const Edit&)>;

/// Edits worth showing; only sound ones.
using Propose = std::function<std::vector<Edit>(const Sound&)>;

struct Diagnostic {
  std::string code;     // "E0301": see codes.h
  std::string message;  // one line: the error
  std::string advice;   // one line: the advice; the rule in words if no edit is sound
  std::vector<Location> places;
  std::string key{};          // path of the key it refers to, if any
  Propose propose{};          // cleared when the suggestions are made
  std::vector<Edit> edits{};  // edits suggested by `advice`; each was checked
};

/// Proposes all of `edits` that are sound.
Propose any_of(std::vector<Edit> edits);

/// "write hidden_size: 240 or 256, or num_attention_heads: 4", "did you mean lr?"; `key`: key of the error.
std::string advice_of(const std::vector<Edit>& edits, const std::string& key);

/// Reading stops after this many errors, because a hostile file must not produce millions.
constexpr std::size_t kMaxDiagnostics = 100;

Location place_of(const Span& span, std::string note = {});
Location place_of_file(const std::string& file);

/// Formats a diagnostic, ending in a line feed. `colour`: ANSI colours.
std::string render(const Diagnostic& diagnostic, bool colour = false);

/// Formats all of them, and a last line with the count and the command that explains the first code.
std::string render(const std::vector<Diagnostic>& diagnostics, bool colour = false);

/// [{"code","message","advice","fixes":[{"write":{key:value},"remove":key,"rename":[from,to]}],
///   "places":[{"file","line","column","text","note"}]}]
std::string to_json(const std::vector<Diagnostic>& diagnostics);

/// Sorts by file, line and column; diagnostics without a location come last.
void sort_by_place(std::vector<Diagnostic>& diagnostics);

}  // namespace llmc::spec
