// Prints a table of runs for `llmc runs`.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "compiler/tools/runs/summary.h"

namespace llmc::runs {

/// Prints a table with a line for each run, then the problems of damaged ones, and the folders without a run. Paths are
/// relative to `base`.
std::string as_text(std::span<const Summary> runs, std::span<const std::filesystem::path> others,
                    const std::filesystem::path& base);

/// Prints {"runs": [{"run", "path", "state", "step", "steps", "loss", "val_loss", "val_step", "tokens_per_second",
/// "started", "problem"}], "others": [...]}; null for a number that is unknown or not finite.
std::string as_json(std::span<const Summary> runs, std::span<const std::filesystem::path> others,
                    const std::filesystem::path& base);

}  // namespace llmc::runs
