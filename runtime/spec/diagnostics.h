// What is wrong with a spec, where, and what to write instead; as text with a caret and as JSON.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "spec/source.h"

namespace llmc::spec {

/// One line of the user's text with a range marked in it. line == 0: the place has no text (an unreadable file).
struct Place {
  std::string file;
  bool command_line = false;  // the text is an override; line and column are not shown
  int line = 0, column = 0;   // 1-based; the column counts code points
  std::string text;           // the line, made printable, cut around the range when it is long
  int caret = 0, width = 0;   // code points of `text` before the range, and in it
  std::string note;           // why this place is shown; empty for the first one
};

/// A change of the spec that may end an error: keys to write, one to leave out, or one to give another name.
struct Edit {
  std::vector<std::pair<std::string, std::string>> write;  // key path and value, as YAML
  std::string remove;                                      // key path
  std::string from, to;                                    // key paths: the value moves
  bool meant = false;                                      // probably a slip: "did you mean ...?"
  std::string text;                                        // how it is said, where not by rule
};

/// Whether the spec with this edit no longer has the error, and no error that it did not have before.
using Sound = std::function<bool(const Edit&)>;

/// The edits that are worth to be shown; only such as are sound.
using Propose = std::function<std::vector<Edit>(const Sound&)>;

struct Diagnostic {
  std::string code;     // "E0301": see codes.h
  std::string message;  // one line: what is wrong
  std::string advice;   // one line: what to write instead; the rule in words where no edit is sound
  std::vector<Place> places;
  std::string key{};          // path of the key that it is about, where there is one
  Propose propose{};          // emptied when the suggestions are made
  std::vector<Edit> edits{};  // what `advice` suggests; each was checked
};

/// All of `edits` that are sound.
Propose any_of(std::vector<Edit> edits);

/// "write hidden_size: 240 or 256, or num_attention_heads: 4", "did you mean lr?"; `key`: what the error is about.
std::string advice_of(const std::vector<Edit>& edits, const std::string& key);

/// Reading stops at this many errors: nobody reads more, and a hostile file cannot make millions.
constexpr std::size_t kMaxDiagnostics = 100;

Place place_of(const Span& span, std::string note = {});
Place place_of_file(const std::string& file);

/// Ends in a line feed. `colour`: ANSI colours.
std::string render(const Diagnostic& diagnostic, bool colour = false);

/// All of them, and a last line with the count and the command that explains the first code.
std::string render(const std::vector<Diagnostic>& diagnostics, bool colour = false);

/// [{"code","message","advice","fixes":[{"write":{key:value},"remove":key,"rename":[from,to]}],
///   "places":[{"file","line","column","text","note"}]}]
std::string to_json(const std::vector<Diagnostic>& diagnostics);

/// By file, line and column; those without a place come last.
void sort_by_place(std::vector<Diagnostic>& diagnostics);

}  // namespace llmc::spec
