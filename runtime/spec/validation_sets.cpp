#include "spec/validation_sets.h"

#include <algorithm>

namespace llmc::spec {

bool is_set_name(std::string_view word) {
  constexpr std::size_t kLongest = 32;
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto inner = [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '_'; };
  return !word.empty() && word.size() <= kLongest && letter(word[0]) && std::ranges::all_of(word, inner) &&
         word != "none" && word != "validation";
}

std::vector<ValidationSet> validation_sets(const Data& data) {
  std::vector<ValidationSet> sets;
  if (!data.validation.path.empty()) sets.push_back({"", data.validation});
  for (const auto& [name, path] : data.validation_sets) sets.push_back({name, {path, data.validation.format}});
  return sets;
}

std::string leading_set(const Spec& spec) {
  const std::vector<ValidationSet> sets = validation_sets(spec.data);
  const auto best =
      std::ranges::find_if(sets, [&](const ValidationSet& set) { return set.word() == spec.checkpoint.best; });
  return best != sets.end() ? best->name : sets.empty() ? "" : sets.front().name;
}

}  // namespace llmc::spec
