// Converts a merged tree to a Spec: looks up every key in the schema, converts every value, fills in every default.
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

struct BoundSpec {
  Spec spec;
  std::map<std::string, Span> given;      // by key path: location of the value; defaults are absent
  std::map<std::string, Span> key_spans;  // by key or group path: location of the key
  std::map<std::string, Span> members;    // by path of an entry's member: location of its value
  std::set<std::string> bad;              // keys without a usable value; relations skip them

  bool usable(const std::string& path) const { return !bad.count(path); }
};

/// Value of `key` given by `node`, or nothing and a diagnostic.
std::optional<Value> convert(const Key& key, const Node& node, const Span& key_span,
                             std::vector<Diagnostic>& diagnostics);

/// Default that a row gives as YAML; nothing if it gives none.
std::optional<Value> fallback_of(const Key& key);

/// Defaults that the rows of a table give as YAML; derived ones follow from other values.
Spec fallback_values(const Schema& schema);

/// Error of `value` as the value of the group; nothing if it is a map (or a list of one if the group is one), a
/// shorthand, or already reported. Suggests the key in the group that takes a single value.
std::optional<Diagnostic> not_a_map(const Schema& schema, const KeyGroup& group, const Node& value);

/// Returns whether a group is written as a map of user-chosen names instead of a list of one.
bool has_names(const Schema& schema, const KeyGroup& group, const Node& value);

/// `root`: tree after extends and overrides. Appends an error for every unknown, missing or malformed key. `whole`
/// false: an extended file could not be read, so missing keys are not reported.
BoundSpec bind_tree(const Node& root, const Source& source, bool whole, std::vector<Diagnostic>& diagnostics,
                    const Schema& schema = spec_schema());

/// Same over existing values: `root` contains replacements for some of them, and only its keys count as `given`.
/// Derived run-time values are derived anew.
BoundSpec bind_over(const Values& base, const Node& root, std::vector<Diagnostic>& diagnostics, const Schema& schema);

}  // namespace llmc::spec
