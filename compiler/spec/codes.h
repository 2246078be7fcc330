// Every error code of the spec reader with the paragraph that `llmc explain CODE` prints.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llmc::spec {

struct Code {
  const char* code;     // "E0301"
  const char* title;    // a few words
  const char* text;     // why it is an error
  const char* example;  // YAML: what is wrong, then what is right
};

const std::vector<Code>& codes();

/// The paragraph and the example of one code, ending in a line feed; nothing for an unknown code.
std::optional<std::string> explain(std::string_view code);

}  // namespace llmc::spec
