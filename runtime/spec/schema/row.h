// Columns of the table's rows, and their bindings: how a key is mapped to its member of Spec.
#pragma once

#include <algorithm>
#include <functional>
#include <iterator>
#include <type_traits>
#include <utility>

#include "spec/scalars.h"
#include "spec/schema/schema.h"

namespace llmc::spec {

/// Builds one row; each method sets one column.
struct KeyRow {
  Key key;

  KeyRow& fallback(const char* yaml) { return key.fallback = yaml, *this; }
  KeyRow& required() { return key.required = true, *this; }
  KeyRow& required_unless(const char* map) { return key.required_unless = map, required(); }
  KeyRow& path() { return key.is_path = key.aside = true, *this; }
  KeyRow& path_or_name() { return key.or_name = true, path(); }
  KeyRow& newer() { return key.newer = true, *this; }
  KeyRow& aside() { return key.aside = true, *this; }
  KeyRow& at_least(double low) { return key.minimum = low, *this; }
  KeyRow& at_most(double high) { return key.maximum = high, *this; }
  KeyRow& range(double low, double high) { return at_least(low).at_most(high); }
  KeyRow& above(double low) { return key.exclusive_minimum = true, at_least(low); }
  KeyRow& words(std::vector<std::string> list) { return key.words = std::move(list), *this; }
  KeyRow& unit(const char* text) { return key.unit = text, *this; }
  KeyRow& doc(std::string text) { return key.doc = std::move(text), *this; }
  KeyRow& when(const char* other, const char* value, std::vector<std::string> or_values = {}) {
    return key.when_key = other, key.when_value = value, key.when_also = std::move(or_values), *this;
  }
  KeyRow& count(std::size_t n) { return key.count = n, *this; }
  KeyRow& or_times() { return key.or_times = true, *this; }
  KeyRow& follows(const char* other) { return key.follows = other, *this; }
  KeyRow& or_single() { return key.or_single = true, *this; }
  KeyRow& run_time() { return key.stage = Stage::run_time, *this; }
  KeyRow& label() { return key.stage = Stage::label, aside(); }
  /// Of a map: the member whose value may replace a whole entry, and the noun for an entry in messages.
  KeyRow& shorthand(const char* member) { return key.shorthand = member, *this; }
  KeyRow& entry(const char* text) { return key.entry = text, *this; }
  KeyRow& reserved(std::vector<std::string> names, const char* why) {
    return key.reserved = std::move(names), key.reserved_for = why, *this;
  }
  template <typename F>
  KeyRow& derived(const char* text, F&& rule) {
    key.derivation = text;
    key.derive = std::forward<F>(rule);
    return *this;
  }
  /// A default that depends on a compiled-in value: shown as a value, not as derived.
  template <typename F>
  KeyRow& fallback_by(F&& rule) {
    key.derive = std::forward<F>(rule);
    return *this;
  }
};

/// Binds a key to the member that `field(spec)` returns by reference.
template <typename Field>
KeyRow bind(const char* path, Type type, Field field) {
  KeyRow row;
  row.key.path = path;
  row.key.type = type;
  using Member = std::remove_cvref_t<decltype(field(std::declval<Spec&>()))>;
  row.key.get = [field](const Spec& spec) -> Value {
    if constexpr (std::is_same_v<Member, std::uint64_t>)
      return static_cast<std::int64_t>(field(spec));
    else
      return field(spec);
  };
  row.key.set = [field](Spec& spec, const Value& value) {
    if constexpr (std::is_same_v<Member, std::uint64_t>)
      field(spec) = static_cast<std::uint64_t>(std::get<std::int64_t>(value));
    else
      field(spec) = std::get<Member>(value);
  };
  return row;
}

/// Binds an integer whose member is 0 for `auto`.
template <typename Field>
KeyRow bind_auto(const char* path, Field field) {
  KeyRow row = bind(path, Type::integer, field);
  row.key.words = {"auto"};
  row.key.get = [field](const Spec& spec) -> Value { return field(spec) == 0 ? Value("auto") : Value(field(spec)); };
  row.key.set = [field](Spec& spec, const Value& value) {
    const auto* number = std::get_if<std::int64_t>(&value);
    field(spec) = number ? *number : 0;
  };
  return row;
}

/// Binds a number or an integer whose member is 0 for `none`, which is the default.
template <typename Field>
KeyRow bind_optional(const char* path, Field field) {
  using Member = std::remove_cvref_t<decltype(field(std::declval<Spec&>()))>;
  KeyRow row = bind(path, std::is_same_v<Member, double> ? Type::number : Type::integer, field);
  row.key.words = {"none"};
  row.key.get = [field](const Spec& spec) -> Value { return field(spec) == 0 ? Value() : Value(field(spec)); };
  row.key.set = [field](Spec& spec, const Value& value) {
    const auto* given = std::get_if<Member>(&value);
    field(spec) = given ? *given : Member{};
  };
  return row;
}

/// Binds a number of tokens, or a multiple of the model's parameters: "20x".
template <typename Field>
KeyRow bind_tokens(const char* path, Field field) {
  KeyRow row = bind(path, Type::integer, [field](auto& spec) -> auto& { return field(spec).tokens; }).or_times();
  row.key.get = [field](const Spec& spec) -> Value {
    const TokenBudget& budget = field(spec);
    if (!budget.given()) return {};
    return budget.times > 0 ? Value(times_text(budget.times)) : Value(budget.tokens);
  };
  row.key.set = [field](Spec& spec, const Value& value) {
    field(spec) = {};
    if (const auto* tokens = std::get_if<std::int64_t>(&value)) field(spec).tokens = *tokens;
    if (const auto* times = std::get_if<std::string>(&value)) field(spec).times = parse_times(*times).value.value_or(0);
  };
  return row;
}

/// Binds a choice whose index in `words` is the value of an enum member.
template <typename Field>
KeyRow bind_choice(const char* path, std::vector<std::string> words, Field field) {
  KeyRow row;
  row.key.path = path;
  row.key.type = Type::choice;
  row.key.words = words;
  using Member = std::remove_cvref_t<decltype(field(std::declval<Spec&>()))>;
  row.key.get = [field, words](const Spec& spec) -> Value { return words[static_cast<std::size_t>(field(spec))]; };
  row.key.set = [field, words](Spec& spec, const Value& value) {
    const auto found = std::find(words.begin(), words.end(), std::get<std::string>(value));
    field(spec) = static_cast<Member>(found - words.begin());
  };
  return row;
}

/// Binds parallel.shard; a separate member records `auto`.
inline KeyRow bind_shard() {
  const std::vector<std::string> words = {"none", "optimizer", "gradients", "parameters"};
  KeyRow row = bind_choice("parallel.shard", words, [](auto& s) -> auto& { return s.parallel.shard; });
  row.key.words.push_back("auto");
  row.key.get = [words](const Spec& spec) -> Value {
    return spec.parallel.shard_automatic ? "auto" : words[static_cast<std::size_t>(spec.parallel.shard)];
  };
  row.key.set = [set = row.key.set](Spec& spec, const Value& value) {
    spec.parallel.shard_automatic = value == Value("auto");
    if (!spec.parallel.shard_automatic) set(spec, value);
  };
  return row;
}

template <typename Field>
KeyRow bind_std(const char* path, Field field) {
  KeyRow row;
  row.key.path = path;
  row.key.type = Type::number;
  row.key.words = {"fan_in", "depth_scaled"};
  row.key.get = [field](const Spec& spec) -> Value {
    const InitStd& std = field(spec);
    if (std.kind == InitStd::Kind::value) return std.value;
    return std.kind == InitStd::Kind::fan_in ? "fan_in" : "depth_scaled";
  };
  row.key.set = [field](Spec& spec, const Value& value) {
    if (const auto* number = std::get_if<double>(&value))
      field(spec) = {InitStd::Kind::value, *number};
    else
      field(spec) = {std::get<std::string>(value) == "fan_in" ? InitStd::Kind::fan_in : InitStd::Kind::depth_scaled, 0};
  };
  return row;
}

inline KeyRow bind_recompute() {
  KeyRow row;
  row.key.path = "memory.recompute";
  row.key.type = Type::recompute;
  row.key.words.assign(std::begin(kRecomputeGroups), std::end(kRecomputeGroups));
  for (const char* word : kUngatedRecomputeGroups)
    if (std::ranges::find(row.key.words, word) == row.key.words.end()) row.key.words.emplace_back(word);
  row.key.get = [](const Spec& spec) -> Value { return spec.memory.recompute; };
  row.key.set = [](Spec& spec, const Value& value) { spec.memory.recompute = std::get<Recompute>(value); };
  return row;
}

/// Member of an entry: its row, and its accessors in an `E`.
template <typename E>
struct BoundMember {
  KeyRow row;
  std::function<Value(const E&)> get;
  std::function<void(E&, const Value&)> set;
};

/// Binds a member to the value that `field(entry)` returns by reference; empty text is no value.
template <typename E, typename Field>
BoundMember<E> bind_member(Type type, KeyRow row, Field field) {
  row.key.type = type;
  using Held = std::remove_cvref_t<decltype(field(std::declval<E&>()))>;
  return {std::move(row), [field](const E& entry) -> Value { return field(entry); },
          [field](E& entry, const Value& value) { field(entry) = std::get<Held>(value); }};
}

/// Same for a number whose value 0 stands for none.
template <typename E, typename Field>
BoundMember<E> bind_optional_member(Type type, KeyRow row, Field field) {
  BoundMember<E> member = bind_member<E>(type, std::move(row), field);
  using Held = std::remove_cvref_t<decltype(field(std::declval<E&>()))>;
  member.get = [field](const E& entry) -> Value {
    const Held value = field(entry);
    return value == Held() ? Value() : Value(value);
  };
  return member;
}

/// Binds a list or map row to the vector that `field(spec)` returns by reference. E::name is the name of a map's entry.
template <typename E, typename Field>
KeyRow bind_entries(const char* path, Type type, Field field, std::vector<BoundMember<E>> members) {
  KeyRow row;
  row.key.path = path;
  row.key.type = type;
  for (const BoundMember<E>& member : members) {
    row.key.members.push_back(member.row.key);
    row.key.is_path = row.key.is_path || member.row.key.is_path;
  }
  row.key.get = [field, members](const Spec& spec) -> Value {
    Entries entries;
    for (const E& element : field(spec)) {
      Entry& entry = entries.emplace_back();
      if constexpr (requires { element.name; }) entry.name = element.name;
      for (const BoundMember<E>& member : members)
        if (Value value = member.get(element); present(value)) entry.values[member.row.key.path] = std::move(value);
    }
    return entries;
  };
  row.key.set = [field, members](Spec& spec, const Value& value) {
    auto& list = field(spec);
    list.clear();
    for (const Entry& entry : std::get<Entries>(value)) {
      E& element = list.emplace_back();
      if constexpr (requires { element.name; }) element.name = entry.name;
      for (const BoundMember<E>& member : members)
        if (const auto found = entry.values.find(member.row.key.path); found != entry.values.end())
          member.set(element, found->second);
    }
  };
  return row;
}

/// Binds model.layer_types; lists that give the layers the same types are equal values.
inline KeyRow bind_layer_types() {
  KeyRow row = bind("model.layer_types", Type::strings, [](auto& spec) -> auto& { return spec.model.layer_types; });
  row.key.get = [](const Spec& spec) -> Value { return shortest_layer_types(spec.model); };
  return row;
}

/// Binds model.no_rope_layers; sets with the same layers are equal values.
inline KeyRow bind_no_rope_layers() {
  KeyRow row =
      bind("model.no_rope_layers", Type::layers, [](auto& spec) -> auto& { return spec.model.no_rope_layers; });
  row.key.words = {"none"};
  row.key.get = [](const Spec& spec) -> Value {
    return shortest_layer_set(spec.model.no_rope_layers, spec.model.num_hidden_layers);
  };
  return row;
}

/// Binds a list of two numbers.
template <typename Field>
KeyRow bind_pair(const char* path, Field field) {
  KeyRow row;
  row.key.path = path;
  row.key.type = Type::numbers;
  row.key.count = 2;
  row.key.get = [field](const Spec& spec) -> Value {
    const std::array<double, 2>& pair = field(spec);
    return std::vector<double>(pair.begin(), pair.end());
  };
  row.key.set = [field](Spec& spec, const Value& value) {
    const auto& pair = std::get<std::vector<double>>(value);
    field(spec) = {pair[0], pair[1]};
  };
  return row;
}

}  // namespace llmc::spec
