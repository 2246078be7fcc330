#include "spec/validation_sets.h"

#include <algorithm>

namespace llmc::spec {

std::vector<ValidationSet> validation_sets(const Data& data) {
  std::vector<ValidationSet> sets;
  if (!data.validation.path.empty()) sets.push_back({"", data.validation});
  for (const auto& [name, source] : data.validation_sets)
    sets.push_back({name, {source.path, source.format.empty() ? data.validation.format : source.format}});
  return sets;
}

std::string leading_set(const Spec& spec) {
  const std::vector<ValidationSet> sets = validation_sets(spec.data);
  const auto best =
      std::ranges::find_if(sets, [&](const ValidationSet& set) { return set.word() == spec.checkpoint.best; });
  return best != sets.end() ? best->name : sets.empty() ? "" : sets.front().name;
}

}  // namespace llmc::spec
