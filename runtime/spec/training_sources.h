// Sources of a run's training data: the unnamed one of data.train.path, or those of a mixture.
#pragma once

#include <string>
#include <vector>

#include "spec/spec.h"

namespace llmc::spec {

/// By ascending name, each with its format; a single source has weight 1 if it gives none.
std::vector<MixedSource> training_sources(const Data& data);

/// Key of a source's path: "data.train.path", "data.train.web".
inline std::string training_key(const std::string& name) { return "data.train." + (name.empty() ? "path" : name); }

}  // namespace llmc::spec
