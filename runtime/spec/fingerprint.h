// The identity of what is compiled in: two specs with one fingerprint give one trainer, up to run-time values. It is of
// the values as chosen, so that `auto` and the number that it became are the same.
#pragma once

#include <string>

#include "spec/schema/schema.h"
#include "spec/spec.h"

namespace llmc::spec {

/// "key=value" lines of every compiled-in key that is read, in the order of the schema. `spec`: with numbers for
/// `auto`.
std::string canonical_text(const Spec& spec);

/// xxh3-128 of canonical_text, 32 hexadecimal digits.
std::string fingerprint(const Spec& spec);

/// The same of the keys of `model` alone: what the tensors of a checkpoint mean, whatever computed them.
std::string model_fingerprint(const Spec& spec);

/// A value as flow YAML: 2048, 1e-05, [norms, swiglu], {every: 2}, "text".
std::string value_text(const Key& key, const Value& value);

/// Plain where YAML and llmc read it back as the same text, else in double quotes with escapes.
std::string yaml_string(const std::string& text);

}  // namespace llmc::spec
