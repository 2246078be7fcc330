#include "spec/advice/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "spec/advice/synonyms.h"
#include "spec/schema/schema.h"
#include "text/printable.h"
#include "text/shell.h"

namespace llmc::spec {

namespace {

/// The only key that is called `word`, by its path or by its last component; empty if there is none or more than one.
std::string key_called(const std::string& word) {
  if (find_key(word)) return word;
  std::vector<std::string> found;
  for (const Key& key : keys())
    if (key.leaf() == word) found.push_back(key.path);
  return found.size() == 1 ? found[0] : "";
}

}  // namespace

std::string unexpected_text(const Unexpected& unexpected) {
  const auto is_option = [](std::string_view word) { return word.size() > 1 && word.starts_with("-"); };
  const auto option = std::ranges::find_if(unexpected.words, is_option);
  if (option == unexpected.words.end()) return fmt::format("not expected: {}", shell_line(unexpected.words));
  const std::size_t equals = option->find('=');
  const std::string name = option->substr(0, equals), word = plain_word(name);
  const std::string missing = fmt::format("there is no option {}", printable(name));
  std::string advice = did_you_mean(name, unexpected.options);
  if (const std::string key = unexpected.overrides ? key_called(word) : ""; !key.empty()) {
    const std::string value = equals != std::string::npos ? option->substr(equals + 1) : "VALUE";
    advice = fmt::format("Keys of the spec have no dashes: {}", shell_word(key + "=" + value));
  } else if (unexpected.overrides && advice.empty()) {
    if (const std::string known = advice_for_key(word); !known.empty()) return fmt::format("{}; {}", missing, known);
  }
  return advice.empty() ? missing : fmt::format("{}. {}", missing, advice);
}

}  // namespace llmc::spec
