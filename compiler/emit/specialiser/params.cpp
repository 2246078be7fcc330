// Writes and parses params.h, and finds the names of it that a template reads.
#include <algorithm>
#include <set>
#include <string_view>

#include "compiler/emit/specialiser/specialiser.h"
#include "compiler/emit/specialiser/tokens.h"
#include "error.h"

namespace llmc::emit {

std::string params_text(const std::vector<Param>& params) {
  std::string text = "namespace llmc {\n\n";
  for (const Param& param : params) {
    if (param.type == "operands") continue;
    text += param.type == "using" ? "using " : "constexpr " + param.type + " ";
    text += param.name + " = " + param.value + ";\n";
  }
  return text + "\n}  // namespace llmc\n";
}

std::vector<Param> parse_params(const std::string& text, const std::string& file) {
  std::vector<Token> tokens = tokenize(text);
  std::erase_if(tokens, [](const Token& t) { return t.kind == TokenKind::comment || t.kind == TokenKind::directive; });
  const auto fail = [&](std::size_t at, const std::string& what) {
    throw Failure(Exit::internal, file + ":" + std::to_string(line_of(text, at)) + ": " + what);
  };
  /// Returns the source text of tokens [first, last).
  const auto spelled = [&](std::size_t first, std::size_t last) {
    return text.substr(tokens[first].begin, tokens[last - 1].end - tokens[first].begin);
  };
  std::vector<Param> params;
  std::size_t at = 0;
  while (at < tokens.size()) {
    if (tokens[at].text == "}" || tokens[at].text == "{" || tokens[at].text == "namespace" ||
        tokens[at].text == "llmc") {
      ++at;
      continue;
    }
    std::size_t equals = at, end = at;
    while (end < tokens.size() && tokens[end].text != ";") ++end;
    while (equals < end && tokens[equals].text != "=") ++equals;
    const bool alias = tokens[at].text == "using";
    if ((!alias && tokens[at].text != "constexpr") || end == tokens.size() || equals + 1 >= end ||
        equals - at < (alias ? 2u : 3u) || tokens[equals - 1].kind != TokenKind::identifier) {
      fail(tokens[at].begin, "expected `constexpr type name = value;` or `using name = type;`");
    }
    params.push_back({alias ? "using" : spelled(at + 1, equals - 1), std::string(tokens[equals - 1].text),
                      spelled(equals + 1, end)});
    at = end + 1;
  }
  return params;
}

std::vector<std::string> params_read(const std::string& template_text, const std::vector<Param>& known) {
  std::set<std::string_view> names;
  for (const Token& token : tokenize(template_text)) {
    if (token.kind == TokenKind::identifier) names.insert(token.text);
    if (token.kind == TokenKind::directive) {
      for (const Token& name : directive_identifiers(token)) names.insert(name.text);
    }
  }
  std::vector<std::string> read;
  for (const Param& param : known) {
    if (names.contains(param.name)) read.push_back(param.name);
  }
  return read;
}

std::string include_style(const SpecialiseInput& input) {
  if (!is_identifier(input.entry)) throw Failure(Exit::internal, "not a function name: " + input.entry);
  if (params_read(input.template_text, input.params).size() != input.params.size()) {
    throw Failure(Exit::internal, input.template_file + ":1: the template does not read all params of " + input.entry);
  }
  std::string text;
  for (const std::string& line : input.header) text += line.empty() ? "//\n" : "// " + line + "\n";
  if (!text.empty()) text += "\n";
  for (const Param& param : input.params)
    if (param.type == "operands")
      text += "#undef " + param.name + "\n#define " + param.name + " " + param.value + "\n\n";
  text += "#include \"device/types.h\"\n\n#define LLMC_PARAMS_GIVEN\n" + params_text(input.params) + "\n";
  if (input.entry != input.template_name) text += "#define " + input.template_name + " " + input.entry + "\n";
  return text + "#include \"" + input.template_file + "\"\n";
}

}  // namespace llmc::emit
