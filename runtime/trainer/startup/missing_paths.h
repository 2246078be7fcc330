// Finds files that a run would read and that do not exist.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "spec/spec.h"

namespace llmc {

struct MissingPath {
  std::string key;             // "data.train.path"
  std::filesystem::path path;  // missing path; may contain * and ?
  std::string hint;            // for a pattern: glob_hint()
};

/// Returns the paths of this spec that lead to nothing. Relative ones are resolved against `directory`.
std::vector<MissingPath> missing_paths(const spec::Spec& spec, const std::filesystem::path& directory);

}  // namespace llmc
