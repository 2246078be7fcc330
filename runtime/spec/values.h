// Values of a run: read from a spec printed by llmc or a trainer, with overrides from a command line.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "spec/resolved.h"

namespace llmc::spec {

/// Reads the output of to_yaml: one key per line, indented by blanks, values in flow style, comments. Missing keys get
/// their defaults. `name`: of the file, for messages. Paths are kept as written. Throws std::invalid_argument with the
/// error and its line.
Values read_values(const std::string& text, const std::string& name, const Schema& schema = spec_schema());

/// Applies "key.path=value" arguments to `values`; values that are derived from them are recomputed. Relative paths in
/// them are resolved against `directory`. Throws Failure(usage) if an argument is malformed, names an unknown key or
/// one twice, is out of bounds, or changes a compiled-in key; Failure(spec) if the values are inconsistent.
Values override_values(const Values& values, const std::vector<std::string>& words,
                       const std::filesystem::path& directory, const Schema& schema = spec_schema());

/// A key whose value changed: "optimizer.lr 0.001 -> 0.0005".
struct Change {
  const Key* key;    // or the member of an entry
  std::string path;  // of the key, or of the entry's member
  std::string before, after;
};

/// Keys whose values differ, among those effective on either side.
std::vector<Change> changes(const Spec& before, const Spec& after, const Schema& schema = spec_schema());

/// Same, without values that are derived in both: they follow from others that changed.
std::vector<Change> changes(const Values& before, const Values& after);

/// "model.num_hidden_layers 3 -> 2, ..." for the changes that make a different model; empty if there are none.
std::string model_changes(const Spec& before, const Spec& after);

/// Keys of the model with whose changes its tensors keep their shapes and most of their meaning: rotary angles and
/// windows.
const std::vector<std::string>& soft_model_keys();

/// Value of a key as written on a command line.
std::string text_of(const std::string& path, const Spec& spec);

/// Resolves relative paths among the values against `directory`.
void resolve_paths(Spec& spec, const std::filesystem::path& directory);

/// A path as written in a file in `directory`: relative if the two share more than the root, so that a tree may be
/// moved.
std::string related_path(const std::filesystem::path& path, const std::filesystem::path& directory);

/// Inverse of resolve_paths, for a spec to be stored in `directory`. Paths stay absolute if that has a symbolic link,
/// because `..` leads elsewhere from the real folder.
void relate_paths(Spec& spec, const std::filesystem::path& directory);

}  // namespace llmc::spec
