// The values of a run: read from a spec as llmc and trainers print it, with what a command line replaces.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "spec/resolved.h"

namespace llmc::spec {

/// Reads what to_yaml printed: one key a line, indented by blanks, values in flow style, comments. Keys that are not
/// there have their defaults. `name`: the file's, for messages. Paths stay as they are written. Throws
/// std::invalid_argument that says what is wrong, and in which line.
Values read_values(const std::string& text, const std::string& name);

/// `values` with "key.path=value" words laid over them: derived values that are run-time values are derived again.
/// Relative paths of the words are resolved against `directory`. Throws Failure(usage) when a word is malformed, names
/// an unknown key or one twice, has a value out of bounds, or names a compiled-in key with another value than it has;
/// Failure(spec) when the values do not fit together.
Values override_values(const Values& values, const std::vector<std::string>& words,
                       const std::filesystem::path& directory);

/// Throws Failure(spec) when the run-time values do not fit together, or do not fit what is compiled in.
void check_values(const Values& values);

/// A key that has another value: "optimizer.lr 0.001 -> 0.0005".
struct Change {
  const Key* key;
  std::string path;  // the key's, or that of the name that somebody chose
  std::string before, after;
};

/// The keys whose values differ, among those that are read on either side.
std::vector<Change> changes(const Spec& before, const Spec& after);

/// "model.num_hidden_layers 3 -> 2, ..." of the changes that make another model; empty where there is none.
std::string model_changes(const Spec& before, const Spec& after);

/// The value of a key as a command line spells it.
std::string text_of(const std::string& path, const Spec& spec);

/// Resolves the relative paths among the values against `directory`.
void resolve_paths(Spec& spec, const std::filesystem::path& directory);

/// A path as a file in `directory` writes it: relative to that where the two share more than the root, so that a tree
/// may be moved.
std::string related_path(const std::filesystem::path& path, const std::filesystem::path& directory);

/// The reverse of resolve_paths, for a spec that is to stand in `directory`.
void relate_paths(Spec& spec, const std::filesystem::path& directory);

}  // namespace llmc::spec
