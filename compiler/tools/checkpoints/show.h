// Contents of one checkpoint: `llmc checkpoint show`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "compiler/tools/checkpoints/contents.h"

namespace llmc::checkpoints {

/// Prints step, position in the data, fingerprints, files, and one line per parameter with its shape, dtype and file.
std::string show_text(const Contents& contents);
nlohmann::ordered_json show_json(const Contents& contents);

/// Prints JSON for standard output: paths may hold any bytes, JSON holds UTF-8.
std::string printed(const nlohmann::ordered_json& json);

}  // namespace llmc::checkpoints
