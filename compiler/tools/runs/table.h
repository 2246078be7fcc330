// Runs below each other, for `llmc runs`.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "compiler/tools/runs/summary.h"

namespace llmc::runs {

/// A table with a line for each run; then what is wrong with damaged ones, and the folders that hold no run. Paths are
/// shown from `base`.
std::string as_text(std::span<const Summary> runs, std::span<const std::filesystem::path> others,
                    const std::filesystem::path& base);

/// {"runs": [{"run", "path", "state", "step", "steps", "loss", "val_loss", "val_step", "tokens_per_second", "started",
/// "problem"}], "others": [...]}; null where a number is not known or not finite.
std::string as_json(std::span<const Summary> runs, std::span<const std::filesystem::path> others,
                    const std::filesystem::path& base);

}  // namespace llmc::runs
