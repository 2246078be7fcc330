// What is wrong with a spec, where, and what to write instead; as text with a caret and as JSON.
#pragma once

#include <string>
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

struct Diagnostic {
  std::string code;     // "E0301": see codes.h
  std::string message;  // one line: what is wrong
  std::string advice;   // one line: what to write instead
  std::vector<Place> places;
};

/// Reading stops at this many errors: nobody reads more, and a hostile file cannot make millions.
constexpr std::size_t kMaxDiagnostics = 100;

Place place_of(const Span& span, std::string note = {});
Place place_of_file(const std::string& file);

/// Ends in a line feed. `colour`: ANSI colours.
std::string render(const Diagnostic& diagnostic, bool colour = false);

/// All of them, and a last line with the count and the command that explains the first code.
std::string render(const std::vector<Diagnostic>& diagnostics, bool colour = false);

/// [{"code","message","advice","places":[{"file","line","column","text","note"}]}]
std::string to_json(const std::vector<Diagnostic>& diagnostics);

/// By file, line and column; those without a place come last.
void sort_by_place(std::vector<Diagnostic>& diagnostics);

}  // namespace llmc::spec
