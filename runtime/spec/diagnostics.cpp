#include "spec/diagnostics.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "text/plural.h"

namespace llmc::spec {
namespace {

constexpr const char* kBold = "\033[1m";
constexpr const char* kRed = "\033[1;31m";
constexpr const char* kGreen = "\033[1;32m";
constexpr const char* kReset = "\033[0m";

int code_points(std::string_view text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

/// Code points [from, from + count) of a printable text.
std::string cut(const std::string& text, int from, int count) {
  std::string result;
  int index = -1;
  for (char c : text) {
    if ((c & 0xc0) != 0x80) ++index;
    if (index >= from && index < from + count) result += c;
  }
  return result;
}

std::string render_place(const Location& place) {
  if (place.line == 0) return {};
  const std::string number = place.command_line ? "" : std::to_string(place.line);
  return fmt::format("  {:>4} | {}\n       | {}{}\n", number, place.text, std::string(place.caret, ' '),
                     std::string(std::max(place.width, 1), '^'));
}

std::string location(const Location& place) {
  if (place.line == 0 || place.command_line) return place.file;
  return fmt::format("{}:{}:{}", place.file, place.line, place.column);
}

nlohmann::ordered_json fixes_json(const std::vector<Edit>& edits) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Edit& edit : edits) {
    nlohmann::ordered_json fix = nlohmann::ordered_json::object();
    for (const auto& [path, value] : edit.write) fix["write"][path] = value;
    if (!edit.remove.empty()) fix["remove"] = edit.remove;
    if (!edit.from.empty()) fix["rename"] = {edit.from, edit.to};
    list.push_back(std::move(fix));
  }
  return list;
}

}  // namespace

Location place_of(const Span& span, std::string note) {
  constexpr int kWidest = 100;  // most code points of a line that are shown
  const std::string& text = span.source->text;
  const std::size_t begin = std::min(span.begin, text.size());
  std::size_t line_begin = begin == 0 ? std::string::npos : text.rfind('\n', begin - 1);
  line_begin = line_begin == std::string::npos ? 0 : line_begin + 1;
  const std::size_t line_end = std::min(text.find('\n', begin), text.size());
  const std::size_t end = std::clamp(span.end, begin, line_end);

  const Position position = position_of(*span.source, begin);
  std::string_view shown = std::string_view(text).substr(line_begin, line_end - line_begin);
  if (shown.ends_with('\r')) shown.remove_suffix(1);  // of a CRLF file
  Location place;
  place.file = printable(span.source->name);
  place.command_line = span.source->command_line;
  place.line = position.line;
  place.column = position.column;
  place.caret = code_points(printable(std::string_view(text).substr(line_begin, begin - line_begin)));
  place.width = std::max(1, code_points(printable(std::string_view(text).substr(begin, end - begin))));
  place.note = std::move(note);
  place.text = printable(shown);
  if (code_points(place.text) > kWidest) {
    const int from = std::max(0, place.caret - kWidest / 2);
    place.text = (from ? "..." : "") + cut(place.text, from, kWidest) + "...";
    place.caret = place.caret - from + (from ? 3 : 0);
    place.width = std::max(1, std::min(place.width, kWidest - (place.caret - (from ? 3 : 0))));
  }
  return place;
}

Location place_of_file(const std::string& file) {
  Location place;
  place.file = printable(file);
  return place;
}

std::string render(const Diagnostic& diagnostic, bool colour) {
  const auto paint = [&](const char* code) { return colour ? code : ""; };
  std::string result;
  const std::string where = diagnostic.places.empty() ? "" : location(diagnostic.places[0]) + ": ";
  result += fmt::format("{}{}{}error {}:{} {}\n", paint(kBold), where, paint(kRed), diagnostic.code, paint(kReset),
                        diagnostic.message);
  for (std::size_t i = 0; i < diagnostic.places.size(); ++i) {
    const Location& place = diagnostic.places[i];
    if (i > 0) result += fmt::format("{}{}:{} {}\n", paint(kBold), location(place), paint(kReset), place.note);
    result += render_place(place);
  }
  if (!diagnostic.advice.empty()) result += fmt::format("  {}{}{}\n", paint(kGreen), diagnostic.advice, paint(kReset));
  return result;
}

std::string render(const std::vector<Diagnostic>& diagnostics, bool colour) {
  std::string result;
  for (const Diagnostic& diagnostic : diagnostics) result += render(diagnostic, colour) + "\n";
  if (!diagnostics.empty())
    result += fmt::format("{} error{}{}; run `llmc explain {}` for details\n", diagnostics.size(),
                          plural(static_cast<std::int64_t>(diagnostics.size())),
                          diagnostics.size() >= kMaxDiagnostics ? " and perhaps more" : "", diagnostics[0].code);
  return result;
}

std::string to_json(const std::vector<Diagnostic>& diagnostics) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Diagnostic& diagnostic : diagnostics) {
    nlohmann::ordered_json places = nlohmann::ordered_json::array();
    for (const Location& place : diagnostic.places)
      places.push_back({{"file", place.file},
                        {"line", place.line},
                        {"column", place.column},
                        {"text", place.text},
                        {"note", place.note}});
    list.push_back({{"code", diagnostic.code},
                    {"message", diagnostic.message},
                    {"advice", diagnostic.advice},
                    {"fixes", fixes_json(diagnostic.edits)},
                    {"places", std::move(places)}});
  }
  return list.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

void sort_by_place(std::vector<Diagnostic>& diagnostics) {
  const auto order = [](const Diagnostic& d) {
    if (d.places.empty()) return std::make_tuple(true, std::string(), 0, 0);
    const Location& p = d.places[0];
    return std::make_tuple(p.command_line, p.command_line ? std::string() : p.file, p.line, p.column);
  };
  std::stable_sort(diagnostics.begin(), diagnostics.end(),
                   [&](const Diagnostic& a, const Diagnostic& b) { return order(a) < order(b); });
}

}  // namespace llmc::spec
