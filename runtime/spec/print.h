// Prints a resolved spec as YAML, and as the table of keys from which a trainer reads its overrides.
#pragma once

#include <functional>
#include <string>

#include "spec/resolved.h"
#include "spec/schema/schema.h"

namespace llmc::spec {

/// Prints all keys that apply to the spec, in schema order. Loading the text gives the same Spec (also with
/// `with_origins`, because origins are comments). Paths stay relative to the spec's directory.
std::string to_yaml(const Resolved& resolved, bool with_origins, const Schema& schema = spec_schema());

/// Prints a trainer's values for read_values(). A derived value has the comment "# default: RULE". Prints the keys
/// selected by `wanted` (empty: all).
std::string to_yaml(const Values& values, const std::function<bool(const Key&)>& wanted = {},
                    const Schema& schema = spec_schema());

/// Beginning of a derived value's comment.
inline constexpr char kDerivedMark[] = "# default: ";

/// JSON array with one object per key: {"key", "value", "run_time", "path", "type", "min", "max", "exclusive_min",
/// "choices", "count"}. type: integer | number | boolean | string | strings | choice | bytes | numbers
/// | recompute | list | map; bounds, choices and count only if there are any. "choices" of an integer or number are
/// keywords allowed instead of it. "path": true marks paths relative to the spec's directory.
std::string keys_json(const Resolved& resolved);

/// "integer", "number", ...
const char* type_name(Type type);

}  // namespace llmc::spec
