// The validation sets of a run: the one of data.validation.path, which has no name, and those that have one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "spec/spec.h"

namespace llmc::spec {

constexpr char kSetNameRule[] =
    "the name of a validation set has letters, digits, - and _, at most 32, and begins with a letter; none and "
    "validation are words of checkpoint.best";

/// Whether `word` can name a validation set: kSetNameRule. That it is none of the group's keys is looked up before.
bool is_set_name(std::string_view word);

struct ValidationSet {
  std::string name;  // empty: that of data.validation.path
  DataSource source;

  /// What names it in a command and in checkpoint.best: "validation" where it has no name.
  std::string word() const { return name.empty() ? "validation" : name; }
  /// What gives its path: "data.validation.web".
  std::string key() const { return "data.validation." + (name.empty() ? "path" : name); }
};

/// In the order of the spec, the one without a name first. All have data.validation.format.
std::vector<ValidationSet> validation_sets(const Data& data);

/// The name of the set whose loss stands for all, in the line of progress and in tables: that of checkpoint.best, else
/// the first one's. Empty: that without a name.
std::string leading_set(const Spec& spec);

/// What stands behind the key of a metric of the set: "/web" in "val_loss/web", nothing where it has no name.
inline std::string metric_suffix(const std::string& name) { return name.empty() ? "" : "/" + name; }

}  // namespace llmc::spec
