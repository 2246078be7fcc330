#include "run/model_change.h"

#include <fmt/format.h>

#include <algorithm>

#include "spec/schema/schema.h"
#include "spec/values.h"

namespace llmc {

const std::vector<std::string>& soft_model_keys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> all;
    for (const spec::Key& key : spec::keys())
      if (key.path.starts_with("model.rope_") || key.path == "model.sliding_window" || key.path == "model.layer_types")
        all.push_back(key.path);
    return all;
  }();
  return keys;
}

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
    soft = soft && in(soft_model_keys(), change.path);
    words += " --allow " + change.path;
  }
  if (any && words.empty()) return {};
  const std::string keys = spec::model_changes(before, after);
  return fmt::format("{}. {}{}", keys.empty() ? fingerprints : keys, instead,
                     any && soft ? ", or resume with" + words : std::string());
}

}  // namespace llmc
