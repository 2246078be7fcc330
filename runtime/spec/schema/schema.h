// The table of keys, which drives parsing, defaults, messages, the JSON Schema, the manual and the trainer's overrides.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "spec/spec.h"

namespace llmc::spec {

struct Entry;
using Entries = std::vector<Entry>;

/// A value as a spec gives it. Choices ("auto", "bf16", "fan_in") are strings; bytes are whole numbers.
using Value = std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<std::string>,
                           std::vector<double>, Entries, Recompute, LayerSet>;

/// One map of a list of maps, or of a map of maps, where it has a name: the values of the members given.
struct Entry {
  std::string name = {};
  std::map<std::string, Value> values = {};  // by the member's key in the entry

  bool operator==(const Entry&) const = default;
};

enum class Type {
  integer,
  number,
  boolean,
  string,
  strings,    // list of strings
  choice,     // one of `words`
  bytes,      // a size in bytes
  numbers,    // list of exactly `count` numbers
  recompute,  // auto | none | full | {every: N} | {layers: {A-B: ...}} | list of `words`
  layers,     // every N-th layer, or a list of layers
  list,       // list of maps with `members`: "sources[1].weight"
  map         // maps with `members` by user-chosen name: every component in the key's group that is no key of it
};

constexpr std::size_t kLongestName = 64;       // of a run's name
constexpr std::size_t kLongestEntryName = 32;  // of an entry's name

/// Stage at which a value takes effect: compiled into the trainer, replaceable at its start, or only a label (the
/// name).
enum class Stage { label, compiled, run_time };

/// "model.rope_scaling" for "model.rope_scaling.type"; empty at the top level.
inline std::string group_of(const std::string& path) {
  return path.find('.') == std::string::npos ? "" : path.substr(0, path.rfind('.'));
}

/// Last component of a path.
inline std::string leaf_of(const std::string& path) { return path.substr(path.rfind('.') + 1); }

struct Key {
  std::string path;  // dotted
  Type type = Type::string;
  Stage stage = Stage::compiled;
  std::string fallback;    // default as YAML; empty if required, derived or absent
  std::string derivation;  // rule of a derived default, in words
  std::string follows;     // a key without which the default is `fallback` and not derived
  bool required = false;
  std::string required_unless = {};  // a map that takes the place of a required key
  bool is_path = false;              // a path or pattern, relative to the spec
  bool or_name = false;              // a path only if names_file() is true, else a name
  bool aside = false;                // no tensor depends on it: names, paths, intervals, display
  bool newer = false;  // newer than runs that must stay resumable: fingerprints omit it at its default or without a
                       // value
  std::optional<double> minimum, maximum;
  bool exclusive_minimum = false;
  std::size_t count = 0;           // numbers
  bool or_single = false;          // strings: one word may stand for a list of it
  bool or_times = false;           // integer: a multiple of the model's parameters, such as 20x, does as well
  std::vector<std::string> words;  // choice, strings, recompute: allowed values; numbers: words allowed instead of a
                                   // number
  std::string unit, doc;
  // Effective only if that key has that value. "*": any value; for a choice, any but its default; for a group, any of
  // its paths. when_also: other values that do as well.
  std::string when_key, when_value;
  std::vector<std::string> when_also = {};

  // Of a list or map. A member's path has a placeholder ("data.validation.NAME.format"); its `get` and `set` are empty
  // because its value is in an Entry. Members are scalars without a `when_key`.
  std::vector<Key> members;
  std::string shorthand;              // map: the member whose value may replace a whole entry
  std::string entry;                  // noun for an entry in messages: "validation set"
  std::vector<std::string> reserved;  // map: words that are no names
  std::string reserved_for;           // the reason, in words

  std::function<Value(const Spec&)> get;
  std::function<void(Spec&, const Value&)> set;
  std::function<std::optional<Value>(const Spec&)> derive;  // nothing while a value it needs is unknown

  std::string group() const { return group_of(path); }
  std::string leaf() const { return leaf_of(path); }
  /// Whether an empty value on a command line removes the key.
  bool removable() const { return is_path && (!required || !required_unless.empty()); }
  bool has_entries() const { return type == Type::list || type == Type::map; }
  /// Member with this key; null: none.
  const Key* member(std::string_view word) const;
  /// Returns whether `word` satisfies name_rule(). The caller checks that it is no key of the group.
  bool names_entry(std::string_view word) const;
  std::string name_rule() const;
  /// Path of an entry: "data.validation.web", "sources[1]".
  std::string path_of(const Entries& entries, std::size_t index) const;
  /// Path of a member of the entry at `place`; for the shorthand, that of the entry.
  std::string path_of(const std::string& place, const Key& member) const;
};

/// A map of keys. `shorthand`: a scalar in its place is the value of that key. `list_of_one`: written as a list of one
/// map.
struct KeyGroup {
  std::string path, doc, shorthand;
  bool list_of_one = false;
};

/// Path of an entry or of its member: "data.validation.web.format", "sources[1].weight".
struct MemberPath {
  const Key *row, *member;  // for a whole entry the member is the shorthand; null: none
  std::string entry;        // name or index
  bool whole;               // the path is that of an entry
};

/// Table of keys, in the order of a printed spec.
class Schema {
 public:
  Schema(std::vector<Key> keys, std::vector<KeyGroup> groups);

  const std::vector<Key>& keys() const { return keys_; }
  const std::vector<KeyGroup>& groups() const { return groups_; }
  const Key* find_key(std::string_view path) const;
  const KeyGroup* find_group(std::string_view path) const;

  /// Key of the group that allows user-chosen names; null: none.
  const Key* names_in(std::string_view group) const;
  /// Keys and groups directly below a group.
  std::vector<std::string> children(const std::string& group) const;
  std::optional<MemberPath> member_path(const std::string& path) const;
  /// Key that holds the value of `path`: a row of the table, or a member of an entry. Null: none.
  const Key* key_of(const std::string& path) const;
  /// Canonical form of a path: "data.validation.web" for "data.validation.web.path".
  std::string canonical(const std::string& path) const;
  /// Components of a path; the "[1]" of "sources[1]" is one.
  std::vector<std::string> words_of(const std::string& path) const;
  /// Value of a path; nothing if there is no such key or entry.
  Value value_at(const std::string& path, const Spec& spec) const;
  /// Returns whether the key is effective with these values (see when_key).
  bool applies(const Key& key, const Spec& spec) const;
  /// Defaults that the table gives; derived ones follow from other values.
  const Spec& defaults() const { return defaults_; }

 private:
  std::vector<Key> keys_;
  std::vector<KeyGroup> groups_;
  Spec defaults_;
};

/// Table of a spec's keys, and lookups in it.
const Schema& spec_schema();
inline const std::vector<Key>& keys() { return spec_schema().keys(); }
inline const std::vector<KeyGroup>& groups() { return spec_schema().groups(); }
inline const Key* find_key(std::string_view path) { return spec_schema().find_key(path); }
inline const KeyGroup* find_group(std::string_view path) { return spec_schema().find_group(path); }
inline const Key* key_of(const std::string& path) { return spec_schema().key_of(path); }

/// Value of `path`, a path key or a member of an entry; empty if not given.
std::string path_at(const std::string& path, const Spec& spec);

/// Returns whether a value that may also be a name is a file: it has a slash, or ends in .yaml.
bool names_file(std::string_view value);

/// Returns whether a value of the key is a path.
inline bool holds_path(const Key& key, std::string_view value) {
  return key.is_path && (!key.or_name || names_file(value));
}

/// Replaces every given path among the key's values by `change(its own key path, the path)`.
void change_paths(const Key& key, Spec& spec,
                  const std::function<std::string(const std::string&, const std::string&)>& change);

/// Whether the default of the key is derived with these values, and not a constant.
bool is_derived(const Key& key, const Spec& spec);

inline bool applies(const Key& key, const Spec& spec) { return spec_schema().applies(key, spec); }

/// Shortest model.layer_types that gives all layers their types.
std::vector<std::string> shortest_layer_types(const Model& model);

/// A set with the same layers of a model of so many: every N-th where that gives them, else the list.
LayerSet shortest_layer_set(const LayerSet& set, std::int64_t layers);

/// Returns whether the key determines the meaning of a checkpoint's tensors.
inline bool is_model(const Key& key) { return key.path.starts_with("model."); }

/// Value of a member in an entry; nothing if not given.
Value value_in(const Entry& entry, const Key& member);

/// Returns whether the shorthand alone gives the entry: every other member is absent or has its default.
bool is_short(const Key& row, const Entry& entry);

/// Returns whether a value is given: neither an empty text nor an empty list.
bool present(const Value& value);

/// "an integer from 1 to 1024", "one of cpu, cuda", "true or false", ...
std::string expectation(const Key& key);

/// A bound that is practically never reached, and that expectations omit.
inline constexpr double kWideBound = 1e12;

/// A bound of the key, in its units.
std::string bound_text(const Key& key, double bound);

/// Advice for restoring a key's default, which no value on a command line does: "its default is 0.1: ...".
std::string default_advice(const Key& key);

/// Valid run name nearest to `wish`; empty if nothing of it is usable.
std::string run_name(const std::string& wish);

/// "a", "a or b", "a, b or c"
std::string either(const std::vector<std::string>& words, const char* last = " or ");

/// Nearest of `candidates` by edit distance, if it is near enough to be meant.
std::optional<std::string> nearest(const std::string& word, const std::vector<std::string>& candidates);

/// The `candidates` that begin with `word`, a word of at least two characters.
std::vector<std::string> begun_by(const std::string& word, const std::vector<std::string>& candidates);

/// "Did you mean a, b or c?" of the candidates that begin with `word`, else "Did you mean a?" of the nearest one; empty
/// without any.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace llmc::spec
