// Messages about arguments that a command does not take.
#pragma once

#include <string>
#include <vector>

namespace llmc::spec {

/// Arguments left over by a command, as typed, and what the command takes.
struct Unexpected {
  std::vector<std::string> words;
  std::vector<std::string> options;  // long names, such as "--steps"
  bool overrides = false;            // takes key.path=value
};

/// "there is no option --stpes; did you mean --steps?" The proposal is an override if the option is named like a key.
std::string unexpected_text(const Unexpected& unexpected);

}  // namespace llmc::spec
