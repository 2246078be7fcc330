#include "run/model_change.h"

#include <fmt/format.h>

#include <algorithm>

#include "spec/values.h"

namespace llmc {

std::string model_refusal(const spec::Spec& before, const spec::Spec& after, const std::vector<std::string>& allowed,
                          const std::string& fingerprints, const std::string& instead) {
  const auto in = [](const std::vector<std::string>& list, const std::string& key) {
    return std::ranges::find(list, key) != list.end();
  };
  bool any = false, soft = true;
  std::string words;
  for (const spec::Change& change : spec::changes(before, after)) {
    if (!spec::is_model(*change.key)) continue;
    any = true;
    if (in(allowed, change.path)) continue;
    soft = soft && in(spec::soft_model_keys(), change.path);
    words += " --allow " + change.path;
  }
  if (any && words.empty()) return {};
  const std::string keys = spec::model_changes(before, after);
  return fmt::format("{}. {}{}", keys.empty() ? fingerprints : keys, instead,
                     any && soft ? ", or resume with" + words : std::string());
}

}  // namespace llmc
