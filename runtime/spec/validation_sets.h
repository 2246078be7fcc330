// Validation sets of a run: the unnamed one of data.validation.path, and named ones.
#pragma once

#include <string>
#include <vector>

#include "spec/spec.h"

namespace llmc::spec {

struct ValidationSet {
  std::string name;  // empty: data.validation.path
  DataSource source;

  /// Name in commands and in checkpoint.best: "validation" for the unnamed set.
  std::string word() const { return name.empty() ? "validation" : name; }
  /// Key of its path: "data.validation.web".
  std::string key() const { return "data.validation." + (name.empty() ? "path" : name); }
};

/// In the order of the spec, the unnamed one first.
std::vector<ValidationSet> validation_sets(const Data& data);

/// Name of the set shown in the progress line and in tables: that of checkpoint.best, else the first. Empty: the
/// unnamed one.
std::string leading_set(const Spec& spec);

/// Suffix of the set's metric keys: "/web" in "val_loss/web", empty for the unnamed set.
inline std::string metric_suffix(const std::string& name) { return name.empty() ? "" : "/" + name; }

}  // namespace llmc::spec
