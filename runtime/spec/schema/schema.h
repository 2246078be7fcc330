// The one table of keys: it drives parsing, defaults, messages, the JSON Schema, the manual and the trainer's
// overrides.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "spec/spec.h"

namespace llmc::spec {

/// A value as a spec spells it. Words ("auto", "bf16", "fan_in") are strings; bytes are whole numbers.
using Value = std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<std::string>,
                           std::vector<double>, NamedPaths, Recompute>;

enum class Type {
  integer,
  number,
  boolean,
  string,
  strings,     // list of strings
  choice,      // one of `words`
  bytes,       // a size in bytes
  numbers,     // list of exactly `count` numbers
  recompute,   // auto | none | full | {every: N} | {layers: {A-B: ...}} | list of `words`
  named_paths  // a path for each name that somebody chose: every word in the key's group that is no key of it
};

constexpr std::size_t kLongestName = 64;  // of a run

/// Whether a value is baked into the trainer, can be replaced when it starts, or is only a label (the name).
enum class Stage { label, compiled, run_time };

/// "model.rope_scaling" of "model.rope_scaling.type"; empty at the top.
inline std::string group_of(const std::string& path) {
  return path.find('.') == std::string::npos ? "" : path.substr(0, path.rfind('.'));
}

/// The last word of a path.
inline std::string leaf_of(const std::string& path) { return path.substr(path.rfind('.') + 1); }

struct Key {
  std::string path;  // dotted
  Type type = Type::string;
  Stage stage = Stage::compiled;
  std::string fallback;    // the default as YAML; empty when required, derived or absent
  std::string derivation;  // how a derived default comes about, in words
  bool required = false;
  bool is_path = false;  // a path or pattern, relative to the spec
  bool or_name = false;  // a path only where names_file() says so, else a name
  bool aside = false;    // no tensor depends on it: names, paths, intervals, what is shown
  bool newer = false;    // younger than runs that are to go on: fingerprints leave it out with its default or no value
  std::optional<double> minimum, maximum;
  bool exclusive_minimum = false, exclusive_maximum = false;
  std::size_t count = 0;           // numbers
  bool or_single = false;          // strings: one word may stand for a list of it
  std::vector<std::string> words;  // choice, strings, recompute: what is allowed; numbers: words in place of a number
  std::string unit, doc;
  // Read only when that key has that value; "*": when it has any, a choice another than its default, or, of a group,
  // when one of its paths has.
  std::string when_key, when_value;

  std::function<Value(const Spec&)> get;
  std::function<void(Spec&, const Value&)> set;
  std::function<std::optional<Value>(const Spec&)> derive;  // nothing while what it needs is unknown

  std::string group() const { return group_of(path); }
  std::string leaf() const { return leaf_of(path); }
};

/// A map of keys. `shorthand`: a scalar in its place is the value of that key. `list_of_one`: written as a list of one
/// map.
struct Group {
  std::string path, doc, shorthand;
  bool list_of_one = false;
};

/// In the order in which a spec is written.
const std::vector<Key>& keys();
const std::vector<Group>& groups();
const Key* find_key(std::string_view path);
const Group* find_group(std::string_view path);

/// The key of the group whose names can be chosen; null: none.
const Key* names_in(std::string_view group);

/// The key that has the value of `path`: for a name that was chosen the one of names_in(). Null: none.
const Key* key_of(const std::string& path);

/// The path that `path` stands for, a key or a name that was chosen; empty where it is not given.
std::string path_at(const std::string& path, const Spec& spec);

/// Whether a value that may also be a name is a file's: it has a slash, or ends in .yaml.
bool names_file(std::string_view value);

/// Whether a value of the key is a path.
inline bool holds_path(const Key& key, std::string_view value) {
  return key.is_path && (!key.or_name || names_file(value));
}

/// Replaces every path that is given among the values of a key by `change(its own key path, the path)`.
void change_paths(const Key& key, Spec& spec,
                  const std::function<std::string(const std::string&, const std::string&)>& change);

/// Whether the key is read with these values (see when_key).
bool applies(const Key& key, const Spec& spec);

/// The shortest model.layer_types with which all layers have the types that they have.
std::vector<std::string> shortest_layer_types(const Model& model);

/// Whether the key says what the tensors of a checkpoint mean.
inline bool is_model(const Key& key) { return key.path.starts_with("model."); }

/// Whether a value is there: not empty text and not an empty list.
bool present(const Value& value);

/// "an integer from 1 to 1024", "one of cpu, cuda", "true or false", ...
std::string expectation(const Key& key);

/// A largest value that hardly anybody meets, and that expectations leave out.
inline constexpr double kWideBound = 1e12;

/// A bound of the key, in its units.
std::string bound_text(const Key& key, double bound);

/// What to write for a key's default, which no word on a command line gives back: "its default is 0.1: ...".
std::string default_advice(const Key& key);

/// The nearest text to `wish` that can name a run; empty where nothing of it can.
std::string run_name(const std::string& wish);

/// "a", "a or b", "a, b or c"
std::string either(const std::vector<std::string>& words, const char* last = " or ");

/// The nearest of `candidates` by edit distance when it is near enough to be meant.
std::optional<std::string> nearest(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace llmc::spec
