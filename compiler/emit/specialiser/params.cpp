// Writes params.h, and finds the names of it that a template reads.
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
    if (param.type == "macro") continue;
    text += param.type == "using" ? "using " : "constexpr " + param.type + " ";
    text += param.name + " = " + param.value + ";\n";
  }
  return text + "\n}  // namespace llmc\n";
}

std::string macros_text(const std::vector<Param>& params) {
  std::string text;
  for (const Param& param : params)
    if (param.type == "macro") text += "#undef " + param.name + "\n#define " + param.name + " " + param.value + "\n\n";
  return text;
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

std::string with_values(std::string text, const std::vector<Param>& params) {
  for (const Param& param : params) text += "\n" + param.value;
  return text;
}

std::string include_style(const SpecialiseInput& input) {
  if (!is_identifier(input.entry)) throw Failure(Exit::internal, "not a function name: " + input.entry);
  if (params_read(with_values(input.template_text, input.params), input.params).size() != input.params.size()) {
    throw Failure(Exit::internal, input.template_file + ":1: the template does not read all params of " + input.entry);
  }
  std::string text;
  for (const std::string& line : input.header) text += line.empty() ? "//\n" : "// " + line + "\n";
  if (!text.empty()) text += "\n";
  text += macros_text(input.params) + "#include \"device/types.h\"\n\n#define LLMC_PARAMS_GIVEN\n" +
          params_text(input.params) + "\n";
  if (input.entry != input.template_name) text += "#define " + input.template_name + " " + input.entry + "\n";
  return text + "#include \"" + input.template_file + "\"\n";
}

}  // namespace llmc::emit
