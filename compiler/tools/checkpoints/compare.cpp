#include "compiler/tools/checkpoints/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "checkpoint/parameter_stream.h"
#include "compiler/tools/checkpoints/blocks.h"
#include "text/plural.h"

namespace llmc::checkpoints {

namespace {

std::vector<std::pair<std::string, std::string>> fields(const TrainState& state) {
  std::vector<std::pair<std::string, std::string>> list = {{"step", fmt::to_string(state.step)}};
  for (auto& field : fields_of(state.position)) list.push_back(std::move(field));
  list.insert(list.end(), {{"seed", fmt::to_string(state.seed)},
                           {"data_seed", fmt::to_string(state.data_seed)},
                           {"model", state.model_fingerprint},
                           {"data", state.data_fingerprint},
                           {"tokenizer", state.tokenizer},
                           {"separator", fmt::to_string(state.separator)}});
  return list;
}

std::string type_of(const safetensors::Entry& entry) {
  return fmt::format("{} {}", safetensors::dtype_name(entry.dtype), shape_text(entry.shape));
}

/// Returns nothing if both tensors have the same bits. Moments in different formats are compared as numbers.
std::optional<TensorChange> compare_values(const CheckpointTensor& before, const Contents& of_before,
                                           const CheckpointTensor& after, const Contents& of_after) {
  TensorNumbers old(before, of_before.tensors), now(after, of_after.tensors);
  const bool same_type = before.entry->dtype == after.entry->dtype;
  if (before.entry->shape != after.entry->shape || (!same_type && !old.has_codes() && !now.has_codes()))
    return TensorChange{.name = before.name(),
                        .shapes = fmt::format("{} -> {}", type_of(*before.entry), type_of(*after.entry))};
  bool same = same_type;
  double norm = 0, difference = 0, largest = 0;
  std::vector<std::byte> old_bytes, bytes;
  std::vector<float> old_values, values;
  for (std::int64_t at = 0, all = before.elements(); at < all; at += static_cast<std::int64_t>(values.size())) {
    values.resize(static_cast<std::size_t>(std::min<std::int64_t>(kBlockElements, all - at)));
    old_values.resize(values.size());
    old.next(old_values, old_bytes);
    now.next(values, bytes);
    same &= old_bytes == bytes;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double from = static_cast<double>(old_values[i]), delta = static_cast<double>(values[i]) - from;
      norm += from * from;
      difference += delta * delta;
      // std::max would drop a NaN; this keeps it.
      if (!(std::abs(delta) <= largest) && !std::isnan(largest)) largest = std::abs(delta);
    }
  }
  if (same) return {};
  const double relative = difference == 0 ? 0 : std::sqrt(difference) / std::sqrt(norm);
  return TensorChange{.name = before.name(), .relative = relative, .largest = largest, .shapes = ""};
}

}  // namespace

Comparison compare(const Contents& before, const Contents& after) {
  Comparison comparison;
  const auto old_fields = fields(before.state), new_fields = fields(after.state);
  for (std::size_t i = 0; i < old_fields.size(); ++i)
    if (old_fields[i] != new_fields[i])
      comparison.state.push_back({old_fields[i].first, {old_fields[i].second, new_fields[i].second}});
  comparison.keys = spec::changes(before.values, after.values);
  std::map<std::string, const CheckpointTensor*> others;
  for (const CheckpointTensor& tensor : after.tensors) others.emplace(tensor.name(), &tensor);
  for (const CheckpointTensor& tensor : before.tensors) {
    const auto other = others.extract(tensor.name());
    if (other.empty())
      comparison.removed.push_back(tensor.name());
    else if (auto change = compare_values(tensor, before, *other.mapped(), after))
      comparison.tensors.push_back(std::move(*change));
    else
      ++comparison.equal;
  }
  for (const auto& [name, tensor] : others) comparison.added.push_back(name);
  // Differences without a size come first: another shape, then NaN.
  const auto rank = [](const TensorChange& change) {
    return !change.shapes.empty() || std::isnan(change.relative) ? std::numeric_limits<double>::infinity()
                                                                 : change.relative;
  };
  std::stable_sort(comparison.tensors.begin(), comparison.tensors.end(),
                   [&](const TensorChange& a, const TensorChange& b) { return rank(a) > rank(b); });
  return comparison;
}

std::string comparison_text(const Contents& before, const Contents& after, const Comparison& comparison) {
  if (comparison.empty())
    return fmt::format("{} and {} are equal ({} tensor{})\n", before.path.string(), after.path.string(),
                       comparison.equal, plural(comparison.equal));
  std::string text = fmt::format("--- {}\n+++ {}\n", before.path.string(), after.path.string());
  text += comparison.state.empty() ? "\nstate: the same\n" : "\nstate\n";
  for (const auto& [field, values] : comparison.state)
    text += fmt::format("  {}: {} -> {}\n", field, values.first, values.second);
  text += comparison.keys.empty() ? "\nspec keys: the same\n" : "\nspec keys\n";
  for (const spec::Change& change : comparison.keys)
    text += fmt::format("  {}: {} -> {}\n", change.path, change.before, change.after);
  text += fmt::format("\ntensors: {} equal, {} differ\n", comparison.equal,
                      comparison.tensors.size() + comparison.removed.size() + comparison.added.size());
  for (const std::string& name : comparison.removed) text += fmt::format("  - {}\n", name);
  for (const std::string& name : comparison.added) text += fmt::format("  + {}\n", name);
  if (!comparison.tensors.empty()) text += "   relative     largest\n";
  for (const TensorChange& change : comparison.tensors)
    text += change.shapes.empty()
                ? fmt::format("  {:>9.3e}  {:>10.3e}  {}\n", change.relative, change.largest, change.name)
                : fmt::format("  {}: {}\n", change.name, change.shapes);
  return text;
}

nlohmann::ordered_json comparison_json(const Comparison& comparison) {
  using Json = nlohmann::ordered_json;
  Json state = Json::array(), keys = Json::array(), tensors = Json::array();
  for (const auto& [field, values] : comparison.state)
    state.push_back({{"field", field}, {"before", values.first}, {"after", values.second}});
  for (const spec::Change& change : comparison.keys)
    keys.push_back({{"key", change.path}, {"before", change.before}, {"after", change.after}});
  for (const TensorChange& change : comparison.tensors)
    if (change.shapes.empty())  // JSON has no NaN; null replaces it
      tensors.push_back({{"name", change.name}, {"relative", change.relative}, {"largest", change.largest}});
    else
      tensors.push_back({{"name", change.name}, {"shapes", change.shapes}});
  return {{"equal", comparison.empty()},      {"state", std::move(state)}, {"keys", std::move(keys)},
          {"removed", comparison.removed},    {"added", comparison.added}, {"tensors", std::move(tensors)},
          {"equal_tensors", comparison.equal}};
}

}  // namespace llmc::checkpoints
