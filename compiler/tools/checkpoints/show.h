// Contents of one checkpoint: `llmc checkpoint show`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "compiler/tools/checkpoints/contents.h"

namespace llmc::checkpoints {

/// Step, place in the data, fingerprints, files, and a line a parameter with its shape, dtype and file.
std::string show_text(const Contents& contents);
nlohmann::ordered_json show_json(const Contents& contents);

/// JSON as standard output has it: paths may hold any bytes, JSON holds UTF-8.
std::string printed(const nlohmann::ordered_json& json);

}  // namespace llmc::checkpoints
