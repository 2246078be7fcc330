#include "compiler/tools/page/frame.h"

#include "compiler/tools/page/files.h"

namespace llmc::page {

namespace {

/// Escapes JSON for a script element: none of its text ends the element or begins a comment.
std::string as_script_data(const nlohmann::ordered_json& document) {
  const std::string json = document.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  std::string text;
  for (const char c : json) {
    if (c == '<')
      text += "\\u003c";
    else
      text += c;
  }
  return text;
}

}  // namespace

std::string frame(const Parts& parts) {
  // The page must load nothing, whatever its data contains.
  std::string text =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; "
      "style-src 'unsafe-inline'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>";
  const auto element = [&](const char* begin, const char* content, const char* end) {
    text += begin;
    text += content;
    text += end;
  };
  element("", parts.title, "</title>\n<style>\n");
  element("", files::kPlotStyle, "\n");
  element("", files::kStyle, parts.style);
  element("</style>\n</head>\n<body>\n", parts.body, "");
  text += "<script id=\"data\" type=\"application/json\">" + as_script_data(parts.data) + "</script>\n";
  element("<script>\n/*\n", files::kPlotLicense, "*/\n");
  element("", files::kPlotLibrary, "</script>\n");
  element("<script>\n", files::kElements, "\n");
  element(files::kNumbers, "\n", files::kAxes);
  text += "</script>\n";
  for (const char* script : parts.scripts) element("<script>\n", script, "</script>\n");
  return text + "</body>\n</html>\n";
}

}  // namespace llmc::page
