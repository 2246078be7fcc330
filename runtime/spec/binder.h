// From a merged tree to a Spec: every key looked up in the schema, every value converted, every default filled in.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "spec/diagnostics.h"
#include "spec/node.h"
#include "spec/resolved.h"
#include "spec/schema/schema.h"
#include "spec/spec.h"

namespace llmc::spec {

struct Bound {
  Spec spec;
  std::map<std::string, Span> given;      // by key path: where the value stands; defaults are not here
  std::map<std::string, Span> key_spans;  // by key or group path: where the key stands
  std::map<std::string, Span> names;      // by path: where the value of a name stands that somebody chose
  std::set<std::string> bad;              // keys without a usable value; relations skip them

  bool usable(const std::string& path) const { return !bad.count(path); }
};

/// The value of `key` that `node` spells, or nothing and a diagnostic.
std::optional<Value> convert(const Key& key, const Node& node, const Span& key_span,
                             std::vector<Diagnostic>& diagnostics);

/// What is wrong with `value` as that of the group: nothing where it is a map (of a list of one, where it belongs in
/// one), a shorthand, or complained about already. Suggests the key in the group that takes a single value.
std::optional<Diagnostic> not_a_map(const Group& group, const Node& value);

/// Whether a group is written as a map of names, which somebody chose, and not as a list of one.
bool has_names(const Group& group, const Node& value);

/// `root`: the tree after extends and overrides. Appends an error for every unknown, missing or malformed key. Not
/// `whole`: a file that it extends could not be read, so nothing is said about missing keys.
Bound bind_tree(const Node& root, const Source& source, bool whole, std::vector<Diagnostic>& diagnostics);

/// The same over values that are there already: `root` holds what replaces some of them, and only its keys are `given`.
/// What is derived among the run-time values is derived again.
Bound bind_over(const Values& base, const Node& root, std::vector<Diagnostic>& diagnostics);

}  // namespace llmc::spec
