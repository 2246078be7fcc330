#include "spec/schema/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "spec/scalars.h"
#include "spec/validation_sets.h"

namespace llmc::spec {

const Key* find_key(std::string_view path) {
  for (const Key& key : keys())
    if (key.path == path) return &key;
  return nullptr;
}

const Group* find_group(std::string_view path) {
  for (const Group& group : groups())
    if (group.path == path) return &group;
  return nullptr;
}

const Key* names_in(std::string_view group) {
  for (const Key& key : keys())
    if (key.type == Type::named_paths && key.group() == group) return &key;
  return nullptr;
}

const Key* key_of(const std::string& path) {
  if (const Key* key = find_key(path); key && key->type != Type::named_paths) return key;
  const Key* names = names_in(group_of(path));
  return names && is_set_name(leaf_of(path)) ? names : nullptr;
}

std::string path_at(const std::string& path, const Spec& spec) {
  const Key* key = key_of(path);
  if (!key) return {};
  const Value value = key->get(spec);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  for (const auto& [name, named] : std::get<NamedPaths>(value))
    if (name == leaf_of(path)) return named;
  return {};
}

bool names_file(std::string_view value) {
  return value.find('/') != std::string_view::npos || value.ends_with(".yaml");
}

void change_paths(const Key& key, Spec& spec,
                  const std::function<std::string(const std::string&, const std::string&)>& change) {
  Value value = key.get(spec);
  if (!key.is_path || !present(value)) return;
  if (key.or_name && !names_file(std::get<std::string>(value))) return;
  if (auto* names = std::get_if<NamedPaths>(&value))
    for (auto& [name, path] : *names) path = change(key.group() + "." + name, path);
  else
    value = change(key.path, std::get<std::string>(value));
  key.set(spec, value);
}

std::vector<std::string> shortest_layer_types(const Model& model) {
  std::vector<std::string> types = model.layer_types;
  const auto layers = static_cast<std::size_t>(model.num_hidden_layers);
  if (types.empty() || types.size() > layers) return types;
  const auto type_of = [&](std::size_t layer) { return types[layer % types.size()]; };
  std::size_t shortest = 1;
  const auto repeats = [&] {
    for (std::size_t layer = shortest; layer < layers; ++layer)
      if (type_of(layer) != type_of(layer % shortest)) return false;
    return true;
  };
  while (!repeats()) ++shortest;
  types.resize(shortest);
  return types;
}

bool present(const Value& value) {
  if (const auto* names = std::get_if<NamedPaths>(&value)) return !names->empty();
  if (const auto* text = std::get_if<std::string>(&value)) return !text->empty();
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) return !list->empty();
  return !std::holds_alternative<std::monostate>(value);
}

bool applies(const Key& key, const Spec& spec) {
  if (key.when_key.empty()) return true;
  if (find_group(key.when_key))
    return std::ranges::any_of(
        keys(), [&](const Key& of) { return of.is_path && of.group() == key.when_key && present(of.get(spec)); });
  const Key& other = *find_key(key.when_key);
  const Value value = other.get(spec);
  if (key.when_value == "*") return present(value) && !(other.type == Type::choice && value == Value(other.fallback));
  if (const auto* flag = std::get_if<bool>(&value)) return key.when_value == (*flag ? "true" : "false");
  const auto* text = std::get_if<std::string>(&value);
  return text && *text == key.when_value;
}

std::string either(const std::vector<std::string>& words, const char* last) {
  std::string result;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) result += i + 1 == words.size() ? last : ", ";
    result += words[i];
  }
  return result;
}

std::string bound_text(const Key& key, double bound) {
  if (key.type == Type::bytes) return bytes_text(static_cast<std::int64_t>(bound));
  if (key.type == Type::integer) return fmt::format("{}", static_cast<std::int64_t>(bound));
  return number_text(bound);
}

namespace {

std::string range_text(const Key& key) {
  const bool upper = key.maximum && *key.maximum < kWideBound;
  std::string text;
  if (key.minimum)
    text += fmt::format(" {} {}",
                        key.exclusive_minimum ? "above"
                        : upper               ? "from"
                                              : "of at least",
                        bound_text(key, *key.minimum));
  if (upper)
    text += fmt::format(" {} {}",
                        key.exclusive_maximum   ? "to below"
                        : key.exclusive_minimum ? "up to"
                                                : "to",
                        bound_text(key, *key.maximum));
  return text;
}

}  // namespace

std::string expectation(const Key& key) {
  const std::string words = key.words.empty() ? "" : either(key.words) + ", or ";
  switch (key.type) {
    case Type::integer: return words + "an integer" + range_text(key);
    case Type::number: return words + "a number" + range_text(key);
    case Type::bytes: return fmt::format("a size such as 80GiB, or a device such as {}", key.words.back());
    case Type::boolean: return "true or false";
    case Type::choice: return either(key.words);
    case Type::string: return key.or_name ? "a name or a path" : key.is_path ? "a path" : "text";
    case Type::numbers: return fmt::format("a list of {} numbers{}", key.count, range_text(key));
    case Type::strings:
      return key.or_single       ? "a name or a list of names"
             : key.words.empty() ? "a list of strings"
                                 : "a list of " + either(key.words);
    case Type::recompute:
      return "auto, none, full, {every: N}, {layers: {0-3: full}}, or a list of " + either(key.words);
    case Type::named_paths: return "a path for each name";
  }
  return {};
}

std::string default_advice(const Key& key) {
  if (key.required) return "write a value: this key has no default";
  if (!key.derivation.empty())
    return fmt::format("write a value; the default, {}, is that of a spec without this key", key.derivation);
  return key.fallback.empty() ? "leave the key out" : fmt::format("write a value; the default is {}", key.fallback);
}

std::string run_name(const std::string& wish) {
  // Keeps "7b" and "13b" distinct.
  std::string name = !wish.empty() && wish[0] >= '0' && wish[0] <= '9' ? "run-" : "";
  for (char c : wish) {
    if (name.size() == kLongestName) break;
    const char small = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if ((small >= 'a' && small <= 'z') || (!name.empty() && small >= '0' && small <= '9'))
      name += small;
    else if (!name.empty() && name.back() != '-')
      name += '-';
  }
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name;
}

std::optional<std::string> nearest(const std::string& word, const std::vector<std::string>& candidates) {
  if (word.size() > 64) return {};
  std::optional<std::string> best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    std::vector<std::size_t> row(candidate.size() + 1);
    std::iota(row.begin(), row.end(), 0);
    for (std::size_t i = 1; i <= word.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i;
      for (std::size_t j = 1; j <= candidate.size(); ++j) {
        const std::size_t substituted = diagonal + (word[i - 1] != candidate[j - 1]);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

}  // namespace llmc::spec
