// Finds the facts of a message: its values, keys, paths and codes. The sentence around them may change.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

namespace llmc::test {

/// Parts of a message, in its order.
struct Facts : std::vector<std::string> {
  Facts(std::initializer_list<std::string> facts) : std::vector<std::string>(facts) {}
  Facts(const char* fact) : Facts({std::string(fact)}) {}  // one fact, where several may be given
  Facts(const std::string& fact) : Facts({fact}) {}
};

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Returns whether a number at the beginning or end of [begin, end) is a part of a longer one: "5" in "15" or "5.5".
inline bool cuts_number(const std::string& text, std::size_t begin, std::size_t end) {
  const auto digit = [&](std::size_t at) { return at < text.size() && is_digit(text[at]); };
  const auto point = [&](std::size_t at) { return at < text.size() && text[at] == '.'; };
  return (digit(begin) && begin > 0 && (digit(begin - 1) || (point(begin - 1) && begin > 1 && digit(begin - 2)))) ||
         (digit(end - 1) && (digit(end) || (point(end) && digit(end + 1))));
}

/// Returns whether `text` has all facts, each after the previous one, and its numbers whole.
inline testing::AssertionResult has_facts(const std::string& text, const Facts& facts) {
  std::size_t from = 0;
  for (const std::string& fact : facts) {
    std::size_t at = text.find(fact, from);
    while (at != std::string::npos && !fact.empty() && cuts_number(text, at, at + fact.size()))
      at = text.find(fact, at + 1);
    if (at == std::string::npos)
      return testing::AssertionFailure() << "no \"" << fact << "\" after the first " << from << " bytes of: " << text;
    from = at + fact.size();
  }
  return testing::AssertionSuccess();
}

}  // namespace llmc::test
