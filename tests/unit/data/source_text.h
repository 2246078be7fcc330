// Source code generated from a seed: enough structure for training a tokenizer, equal on every machine.
#pragma once

#include <array>
#include <random>
#include <string>
#include <string_view>

namespace llmc::test {

inline std::string source_text(unsigned seed, int functions) {
  std::mt19937 random(seed);
  constexpr std::array<std::string_view, 16> words = {"value",  "index",  "result", "count",   "self",   "name",
                                                      "buffer", "length", "parse",  "write",   "reader", "token",
                                                      "offset", "error",  "größe",  "シャード"};
  const auto word = [&] { return std::string(words[random() % words.size()]); };
  std::string text;
  for (int i = 0; i < functions; ++i) {
    text += "def " + word() + "_" + word() + "(" + word() + ", *" + word() + "):\n";
    text += "    \"\"\"Return the " + word() + " of " + word() + ".\"\"\"\n\n";
    for (unsigned line = 0; line < 2 + random() % 5; ++line)
      text += "        " + word() + "[" + std::to_string(random() % 100) + "] = " + word() + "." + word() + "\t# " +
              word() + "\r\n";
    text += "    return " + word() + "   \n\n\n";
  }
  return text;
}

}  // namespace llmc::test
