// The files that a run reads, and whether they are there.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "spec/spec.h"

namespace llmc {

struct MissingPath {
  std::string key;             // "data.train.path"
  std::filesystem::path path;  // where nothing is; may hold * and ?
  std::string hint;            // of a pattern: glob_hint()
};

/// The paths that a run of this spec opens and that lead to nothing. Relative ones are taken from `directory`.
std::vector<MissingPath> missing_paths(const spec::Spec& spec, const std::filesystem::path& directory);

}  // namespace llmc
