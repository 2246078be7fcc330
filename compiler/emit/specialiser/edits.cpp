#include "compiler/emit/specialiser/edits.h"

#include <algorithm>

#include "compiler/emit/specialiser/tokens.h"
#include "error.h"

namespace llmc::emit {

bool Edits::touches(std::size_t at) const {
  return std::any_of(removals_.begin(), removals_.end(), [&](const TextRange& r) { return r.contains(at); }) ||
         std::any_of(replacements_.begin(), replacements_.end(),
                     [&](const Replacement& r) { return r.range.contains(at); });
}

std::vector<TextRange> Edits::merged_removals() const {
  std::vector<TextRange> sorted = removals_;
  std::sort(sorted.begin(), sorted.end(), [](const TextRange& a, const TextRange& b) { return a.begin < b.begin; });
  std::vector<TextRange> merged;
  for (const TextRange& range : sorted) {
    if (!merged.empty() && range.begin <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, range.end);
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

std::string Edits::apply() const {
  const std::vector<TextRange> removals = merged_removals();
  std::vector<Replacement> all;
  for (const Replacement& r : replacements_) {
    const bool gone = std::any_of(removals.begin(), removals.end(), [&](const TextRange& removal) {
      // An insertion at either end of a removal stays.
      return r.range.begin == r.range.end ? removal.begin < r.range.begin && r.range.begin < removal.end
                                          : removal.begin <= r.range.begin && r.range.end <= removal.end;
    });
    if (!gone) all.push_back(r);
  }
  for (const TextRange& range : removals) all.push_back({range, ""});
  // Insertions come before a change that starts at the same offset.
  std::stable_sort(all.begin(), all.end(), [](const Replacement& a, const Replacement& b) {
    return a.range.begin != b.range.begin ? a.range.begin < b.range.begin : a.range.end < b.range.end;
  });
  all.erase(std::unique(all.begin(), all.end()), all.end());

  std::string result;
  std::size_t at = 0;
  for (const Replacement& edit : all) {
    if (edit.range.begin < at) {
      throw Failure(Exit::internal, file_ + ":" + std::to_string(line_of(text_, edit.range.begin)) + ": edits overlap");
    }
    result.append(text_, at, edit.range.begin - at);
    result += edit.with;
    at = edit.range.end;
  }
  return result.append(text_, at, std::string::npos);
}

}  // namespace llmc::emit
