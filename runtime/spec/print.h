// A resolved spec as YAML, and as the table of keys that a trainer reads its overrides with.
#pragma once

#include <functional>
#include <string>

#include "spec/resolved.h"
#include "spec/schema/schema.h"

namespace llmc::spec {

/// Every key that is read, in the order of the schema; loading the text again gives the same Spec (with `with_origins`
/// too: origins are comments). Paths stay relative to the spec's directory.
std::string to_yaml(const Resolved& resolved, bool with_origins);

/// The same of what a trainer knows, for read_values: a derived value has the comment "# default: how it follows". Of
/// the keys, those that `wanted` says (empty: all).
std::string to_yaml(const Values& values, const std::function<bool(const Key&)>& wanted = {});

/// What that comment begins with.
inline constexpr char kDerivedMark[] = "# default: ";

/// JSON array, one object a key: {"key", "value", "run_time", "path", "type", "min", "max", "exclusive_min",
/// "exclusive_max", "choices", "count"}. type: integer | number | boolean | string | strings | choice | bytes | numbers
/// | recompute; bounds, choices and count only where there are any. "choices" of an integer or number are words that
/// may stand in its place. "path": true marks texts that are relative to the spec's directory.
std::string keys_json(const Resolved& resolved);

/// "integer", "number", ...
const char* type_name(Type type);

}  // namespace llmc::spec
