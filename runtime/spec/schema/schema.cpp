#include "spec/schema/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "spec/binder.h"
#include "spec/fingerprint.h"
#include "spec/scalars.h"

namespace llmc::spec {

namespace {

bool is_number(std::string_view text) {
  return !text.empty() && text.size() < 10 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

const Key* Key::member(std::string_view word) const {
  const auto found = std::ranges::find_if(members, [&](const Key& key) { return key.leaf() == word; });
  return found == members.end() ? nullptr : &*found;
}

bool Key::names_entry(std::string_view word) const {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto inner = [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '_'; };
  return !word.empty() && word.size() <= kLongestEntryName && letter(word[0]) && std::ranges::all_of(word, inner) &&
         std::ranges::find(reserved, word) == reserved.end();
}

std::string Key::name_rule() const {
  return fmt::format("the name of a {} has letters, digits, - and _, at most {}, and begins with a letter{}", entry,
                     kLongestEntryName,
                     reserved.empty() ? "" : fmt::format("; {} {}", either(reserved, " and "), reserved_for));
}

std::string Key::path_of(const Entries& entries, std::size_t index) const {
  return type == Type::map ? group() + "." + entries[index].name : fmt::format("{}[{}]", path, index);
}

std::string Key::path_of(const std::string& place, const Key& member) const {
  return member.leaf() == shorthand ? place : place + "." + member.leaf();
}

Schema::Schema(std::vector<Key> keys, std::vector<KeyGroup> groups)
    : keys_(std::move(keys)), groups_(std::move(groups)) {
  for (Key& row : keys_)
    for (Key& member : row.members) {
      member.path = row.path + (row.type == Type::map ? "." : "[N].") + member.leaf();
      member.stage = row.stage;
      member.aside = row.aside;
      // Each entry has its shorthand anyway, and an empty one on a command line removes the entry.
      if (member.leaf() == row.shorthand) member.required = false;
    }
  defaults_ = fallback_values(*this);
}

const Key* Schema::find_key(std::string_view path) const {
  for (const Key& key : keys_)
    if (key.path == path) return &key;
  return nullptr;
}

const KeyGroup* Schema::find_group(std::string_view path) const {
  for (const KeyGroup& group : groups_)
    if (group.path == path) return &group;
  return nullptr;
}

const Key* Schema::names_in(std::string_view group) const {
  for (const Key& key : keys_)
    if (key.type == Type::map && key.group() == group) return &key;
  return nullptr;
}

std::vector<std::string> Schema::children(const std::string& group) const {
  std::vector<std::string> result;
  for (const Key& key : keys_)
    if (key.type != Type::map && key.group() == group) result.push_back(key.leaf());
  for (const KeyGroup& child : groups_)
    if (group_of(child.path) == group) result.push_back(leaf_of(child.path));
  if (group.empty()) result.insert(result.end(), {"extends", "phases"});
  return result;
}

std::optional<MemberPath> Schema::member_path(const std::string& path) const {
  const auto at = [&](const Key& row, std::size_t begin, std::size_t end,
                      std::size_t rest) -> std::optional<MemberPath> {
    const std::string entry = path.substr(begin, end - begin);
    const std::string group = row.group(), own = group.empty() ? entry : group + "." + entry;
    const Key* known = find_key(own);
    if (row.type == Type::map ? (known && known != &row) || find_group(own) || !row.names_entry(entry)
                              : !is_number(entry))
      return {};
    if (rest >= path.size())
      return MemberPath{&row, row.shorthand.empty() ? nullptr : row.member(row.shorthand), entry, true};
    const Key* member = path[rest] == '.' ? row.member(std::string_view(path).substr(rest + 1)) : nullptr;
    return member ? std::optional(MemberPath{&row, member, entry, false}) : std::nullopt;
  };
  for (const Key& row : keys_) {
    if (!row.has_entries()) continue;
    const std::string above = row.type == Type::map ? row.group() + "." : row.path + "[";
    if (!path.starts_with(above)) continue;
    const std::size_t end = std::min(path.find(row.type == Type::map ? '.' : ']', above.size()), path.size());
    if (auto found = at(row, above.size(), end, row.type == Type::map ? end : end + 1)) return found;
  }
  return {};
}

const Key* Schema::key_of(const std::string& path) const {
  if (const Key* key = find_key(path); key && key->type != Type::map) return key;
  const std::optional<MemberPath> member = member_path(path);
  return member ? member->member : nullptr;
}

std::string Schema::canonical(const std::string& path) const {
  const std::optional<MemberPath> found = find_key(path) ? std::nullopt : member_path(path);
  const bool longer = found && !found->whole && found->member->leaf() == found->row->shorthand;
  return longer ? group_of(path) : path;
}

std::vector<std::string> Schema::words_of(const std::string& path) const {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size()), bracket = path.find('[', begin);
    const Key* list = bracket < end && bracket > begin ? find_key(std::string_view(path).substr(0, bracket)) : nullptr;
    if (list && list->type == Type::list) {
      words.push_back(path.substr(begin, bracket - begin));
      words.push_back(path.substr(bracket, end - bracket));
    } else {
      words.push_back(path.substr(begin, end - begin));
    }
    begin = end + 1;
  }
  return words;
}

Value Schema::value_at(const std::string& path, const Spec& spec) const {
  if (const Key* key = find_key(path)) return key->get(spec);
  const std::optional<MemberPath> found = member_path(path);
  if (!found || !found->member) return {};
  const Entries entries = std::get<Entries>(found->row->get(spec));
  for (std::size_t i = 0; i < entries.size(); ++i)
    if (found->row->type == Type::map ? entries[i].name == found->entry : std::to_string(i) == found->entry)
      return value_in(entries[i], *found->member);
  return {};
}

Value value_in(const Entry& entry, const Key& member) {
  const auto found = entry.values.find(member.leaf());
  return found == entry.values.end() ? Value() : found->second;
}

bool is_short(const Key& row, const Entry& entry) {
  return !row.shorthand.empty() && std::ranges::all_of(entry.values, [&](const auto& value) {
    return value.first == row.shorthand || !present(value.second) ||
           value_text(*row.member(value.first), value.second) == row.member(value.first)->fallback;
  });
}

std::string path_at(const std::string& path, const Spec& spec) {
  const Value value = spec_schema().value_at(path, spec);
  const auto* text = std::get_if<std::string>(&value);
  return text ? *text : std::string();
}

bool names_file(std::string_view value) {
  return value.find('/') != std::string_view::npos || value.ends_with(".yaml");
}

void change_paths(const Key& key, Spec& spec,
                  const std::function<std::string(const std::string&, const std::string&)>& change) {
  Value value = key.get(spec);
  if (!key.is_path || !present(value)) return;
  if (key.or_name && !names_file(std::get<std::string>(value))) return;
  if (auto* entries = std::get_if<Entries>(&value)) {
    for (std::size_t i = 0; i < entries->size(); ++i)
      for (const Key& member : key.members)
        if (const Value text = value_in((*entries)[i], member); member.is_path && present(text))
          (*entries)[i].values[member.leaf()] =
              change(key.path_of(key.path_of(*entries, i), member), std::get<std::string>(text));
  } else {
    value = change(key.path, std::get<std::string>(value));
  }
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

LayerSet shortest_layer_set(const LayerSet& set, std::int64_t layers) {
  if (set.every || set.layers.empty() || set.layers.back() >= layers) return set;
  const std::int64_t every = set.layers.front() + 1;
  return std::ssize(set.layers) == layers / every &&
                 std::ranges::all_of(set.layers, [&](std::int64_t layer) { return (layer + 1) % every == 0; })
             ? LayerSet{.every = every, .layers = {}}
             : set;
}

bool present(const Value& value) {
  if (const auto* set = std::get_if<LayerSet>(&value)) return !set->empty();
  if (const auto* entries = std::get_if<Entries>(&value)) return !entries->empty();
  if (const auto* text = std::get_if<std::string>(&value)) return !text->empty();
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) return !list->empty();
  return !std::holds_alternative<std::monostate>(value);
}

bool Schema::applies(const Key& key, const Spec& spec) const {
  if (key.when_key.empty()) return true;
  if (find_group(key.when_key))
    return std::ranges::any_of(
        keys_, [&](const Key& of) { return of.is_path && of.group() == key.when_key && present(of.get(spec)); });
  const Key& other = *find_key(key.when_key);
  const Value value = other.get(spec);
  if (key.when_value == "*") return present(value) && !(other.type == Type::choice && value == Value(other.fallback));
  if (const auto* flag = std::get_if<bool>(&value)) return key.when_value == (*flag ? "true" : "false");
  const auto* text = std::get_if<std::string>(&value);
  return text && (*text == key.when_value || std::ranges::find(key.when_also, *text) != key.when_also.end());
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
  if (upper) text += fmt::format(" {} {}", key.exclusive_minimum ? "up to" : "to", bound_text(key, *key.maximum));
  return text;
}

}  // namespace

std::string expectation(const Key& key) {
  const std::string words = key.words.empty() ? "" : either(key.words) + ", or ";
  switch (key.type) {
    case Type::integer:
      return words + "an integer" + range_text(key) +
             (key.or_times ? ", or a multiple of the model's parameters such as 20x" : "");
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
    case Type::layers: return words + "an integer N for every N-th layer, or a list of layers from 0";
    case Type::list: return "a list of maps";
    case Type::map:
      return (key.shorthand.empty() ? "a map" : expectation(*key.member(key.shorthand))) + " for each name";
  }
  return {};
}

bool is_derived(const Key& key, const Spec& spec) {
  return !key.derivation.empty() && (key.follows.empty() || present(spec_schema().value_at(key.follows, spec)));
}

std::string default_advice(const Key& key) {
  if (key.required) return "write a value: this key has no default";
  if (!key.derivation.empty() && key.follows.empty())
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

namespace {

std::string lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

/// Counts insertions, deletions, substitutions and swaps of neighbours.
std::size_t edits_between(const std::string& a, const std::string& b) {
  std::vector<std::size_t> older, last(b.size() + 1), row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    older = std::exchange(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], older[j - 2] + 1);
    }
  }
  return row.back();
}

}  // namespace

std::optional<std::string> nearest(const std::string& word, const std::vector<std::string>& candidates) {
  if (word.size() > 64) return {};
  std::optional<std::string> best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  const std::string small = lower_case(word);
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edits_between(small, lower_case(candidate));
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::vector<std::string> begun_by(const std::string& word, const std::vector<std::string>& candidates) {
  std::vector<std::string> begun;
  if (word.size() > 1)
    std::ranges::copy_if(
        candidates, std::back_inserter(begun),
        [small = lower_case(word)](const std::string& candidate) { return lower_case(candidate).starts_with(small); });
  return begun;
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates) {
  constexpr std::size_t kMost = 4;
  const std::vector<std::string> begun = begun_by(word, candidates);
  if (!begun.empty() && begun.size() <= kMost) return fmt::format("Did you mean {}?", either(begun));
  const std::optional<std::string> near = nearest(word, candidates);
  return near ? fmt::format("Did you mean {}?", *near) : "";
}

}  // namespace llmc::spec
