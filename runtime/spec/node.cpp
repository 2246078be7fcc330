#include "spec/node.h"

#include <fmt/format.h>

namespace llmc::spec {

Node* Node::find(const std::string& key) {
  for (auto& [name, value] : members)
    if (name.text == key) return &value;
  return nullptr;
}

const Node* Node::find(const std::string& key) const { return const_cast<Node*>(this)->find(key); }

bool check_bytes(const Source& source, std::vector<Diagnostic>& diagnostics) {
  const std::string& text = source.text;
  if (text.size() > kMaxBytes) {
    diagnostics.push_back({"E0103",
                           fmt::format("a spec has at most {} bytes, but this one has {}", kMaxBytes, text.size()),
                           "check that this is the right file",
                           {place_of_file(source.name)}});
    return false;
  }
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = code_point_length(std::string_view(text).substr(i, 4));
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool control = (byte < 0x20 && byte != '\n' && byte != '\t' &&
                          !(byte == '\r' && i + 1 < text.size() && text[i + 1] == '\n')) ||
                         byte == 0x7f;
    if (length == 0 || control) {
      diagnostics.push_back(
          {"E0102",
           length == 0 ? fmt::format("the byte 0x{:02x} is not valid UTF-8 here", byte)
                       : fmt::format("the control character 0x{:02x} is not allowed in a spec", byte),
           length == 0 ? "save the file as UTF-8" : "remove it; inside double quotes write \\n or \\t",
           {place_of({&source, i, i + 1})}});
      return false;
    }
    i += length;
  }
  return true;
}

}  // namespace llmc::spec
