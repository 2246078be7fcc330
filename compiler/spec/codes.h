// Every error code of the spec reader with the paragraph that `llmc explain CODE` prints.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llmc::spec {

struct Code {
  const char* code;   // "E0301"
  const char* title;  // a few words
  const char* text;   // why it is an error
  // Lines over a spec without errors, a whole spec, or a command `llmc COMMAND spec.yaml ...`: one that has the error,
  // and one that has none.
  const char *wrong, *right;
};

const std::vector<Code>& codes();

/// The paragraph and the examples of one code in either case, ending in a line feed; nothing for an unknown code.
std::optional<std::string> explain(std::string_view code);

/// A line for each code with its title.
std::string explain_all();

}  // namespace llmc::spec
