#include "compiler/emit/printer.h"

#include <cctype>

#include "error.h"

namespace llmc::emit {

std::string fill(std::string_view text, const std::map<std::string, std::string, std::less<>>& values) {
  std::string out;
  std::size_t at = 0;
  while (true) {
    const std::size_t begin = text.find('$', at);
    if (begin == std::string_view::npos) return out.append(text.substr(at));
    const std::size_t end = text.find('$', begin + 1);
    if (end == std::string_view::npos)
      throw Failure(Exit::internal, "a lone $ in a printed line: " + std::string(text));
    const auto value = values.find(text.substr(begin + 1, end - begin - 1));
    if (value == values.end())
      throw Failure(Exit::internal,
                    "no value for " + std::string(text.substr(begin, end - begin + 1)) + " in a printed line");
    out.append(text.substr(at, begin - at)).append(value->second);
    at = end + 1;
  }
}

std::string constant_name(std::string_view name) {
  std::string text = "k";
  bool upper = true;
  for (const char c : name) {
    if (c != '_') text += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    upper = c == '_';
  }
  return text;
}

const char* dtype_literal(DType type) {
  switch (type) {
    case DType::f32: return "DType::f32";
    case DType::bf16: return "DType::bf16";
    case DType::f16: return "DType::f16";
    case DType::e4m3: return "DType::e4m3";
    case DType::e5m2: return "DType::e5m2";
    case DType::dynamic8: return "DType::dynamic8";
    case DType::udynamic8: return "DType::udynamic8";
    case DType::rest: return "DType::rest";
    case DType::tie: return "DType::tie";
    case DType::i32: return "DType::i32";
    case DType::byte: return "DType::byte";
  }
  return "";
}

std::string arch_list(const spec::Spec& spec) {
  std::string text;
  for (const std::string& arch : spec.target.arch) text += (text.empty() ? "" : ",") + arch;
  return text;
}

void SourceWriter::line(std::string_view text, const Values& values) {
  text_.append(static_cast<std::size_t>(2 * depth_), ' ').append(fill(text, values)).append("\n");
}

void SourceWriter::open(std::string_view text, const Values& values) {
  line(std::string(text) + " {", values);
  ++depth_;
}

void SourceWriter::close(std::string_view text) {
  --depth_;
  line(text);
}

void SourceWriter::middle(std::string_view text) {
  close(text);
  ++depth_;
}

}  // namespace llmc::emit
