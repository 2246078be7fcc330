// Identity of the compiled-in values: specs with the same fingerprint give the same trainer, apart from defaults of
// run-time values. It covers the values as chosen, so that `auto` and the number it resolved to are equal.
#pragma once

#include <string>

#include "spec/schema/schema.h"
#include "spec/spec.h"

namespace llmc::spec {

/// "key=value" lines of all used compiled-in keys, in schema order. `spec`: with numbers for `auto`.
std::string canonical_text(const Spec& spec, const Schema& schema = spec_schema());

/// xxh3-128 of canonical_text, 32 hexadecimal digits.
std::string fingerprint(const Spec& spec);

/// Same for the keys of `model` only: the meaning of a checkpoint's tensors, however they were computed.
std::string model_fingerprint(const Spec& spec);

/// Formats a value as flow YAML: 2048, 1e-05, [norms, swiglu], {every: 2}, "text".
std::string value_text(const Key& key, const Value& value);

/// Plain if YAML and llmc read it back as the same text, else in double quotes with escapes.
std::string yaml_string(const std::string& text);

}  // namespace llmc::spec
