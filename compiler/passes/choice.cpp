#include "compiler/passes/choice.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "error.h"

namespace llmc::passes {

using namespace graph;

namespace {

constexpr RecomputeGroups kWords = std::size(spec::kRecomputeGroups);
static_assert(kRecomputeAll == ((1u << kWords) - 1) + static_cast<RecomputeGroups>(RecomputeGroup::rest),
              "one bit for each keyword of memory.recompute, and one for the rest");

RecomputeGroups group_of(const std::string& word) {
  for (RecomputeGroups i = 0; i < kWords; ++i)
    if (word == spec::kRecomputeGroups[i] || word == spec::kUngatedRecomputeGroups[i]) return 1u << i;
  throw Failure(Exit::internal, "memory.recompute has no " + word);
}

RecomputeGroups groups_of(const std::vector<std::string>& words) {
  RecomputeGroups groups = 0;
  for (const std::string& word : words) groups |= group_of(word);
  return groups;
}

std::vector<std::string> words_of(RecomputeGroups groups, const spec::Model& model) {
  std::vector<std::string> words;
  for (RecomputeGroups i = 0; i < kWords; ++i)
    if (groups & 1u << i)
      words.emplace_back(model.mlp_gated ? spec::kRecomputeGroups[i] : spec::kUngatedRecomputeGroups[i]);
  return words;
}

}  // namespace

std::vector<RecomputeGroups> recompute_of(const spec::Spec& spec) {
  const spec::Recompute& wish = spec.memory.recompute;
  std::vector<RecomputeGroups> layers(static_cast<std::size_t>(spec.model.num_hidden_layers), 0);
  for (std::size_t layer = 0; layer < layers.size(); ++layer) switch (wish.kind) {
      case spec::Recompute::Kind::none:
      case spec::Recompute::Kind::automatic: break;
      case spec::Recompute::Kind::full: layers[layer] = kRecomputeAll; break;
      case spec::Recompute::Kind::every:
        if (static_cast<std::int64_t>(layer) % wish.every == 0) layers[layer] = kRecomputeAll;
        break;
      case spec::Recompute::Kind::ops: layers[layer] = groups_of(wish.ops); break;
      case spec::Recompute::Kind::layers:
        for (const spec::RecomputeRange& range : wish.layers)
          if (range.first <= static_cast<std::int64_t>(layer) && static_cast<std::int64_t>(layer) <= range.last)
            layers[layer] = range.full ? kRecomputeAll : groups_of(range.ops);
        break;
    }
  return layers;
}

spec::Recompute recompute_from(const std::vector<RecomputeGroups>& layers, const spec::Model& model) {
  using Kind = spec::Recompute::Kind;
  const bool same = std::ranges::all_of(layers, [&](RecomputeGroups groups) { return groups == layers.front(); });
  if (same && layers.front() == 0) return {.kind = Kind::none};
  if (same && layers.front() == kRecomputeAll) return {.kind = Kind::full};
  if (same) return {.kind = Kind::ops, .ops = words_of(layers.front(), model)};
  spec::Recompute result{.kind = Kind::layers};
  for (std::size_t begin = 0, end = 0; begin < layers.size(); begin = end) {
    while (end < layers.size() && layers[end] == layers[begin]) ++end;
    const bool full = layers[begin] == kRecomputeAll;
    if (layers[begin] == 0) continue;
    result.layers.push_back({.first = static_cast<std::int64_t>(begin),
                             .last = static_cast<std::int64_t>(end) - 1,
                             .full = full,
                             .ops = full ? std::vector<std::string>() : words_of(layers[begin], model)});
  }
  return result;
}

}  // namespace llmc::passes
