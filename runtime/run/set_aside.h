// Keeps logs that a start would replace: those of a start that saved no checkpoint, and damaged ones.
#pragma once

#include <filesystem>

#include "checkpoint/checkpoint.h"

namespace llmc {

/// Creates RUN/set-aside-N with the first unused N. Throws Failure(checkpoint).
std::filesystem::path new_aside_folder(const std::filesystem::path& run);

/// Moves tensorboard/, samples.jsonl and metrics.jsonl of `run` to a new folder RUN/set-aside-N if one of them has
/// content, and reports it to `log`. If it is killed between two moves, the next start moves the rest to another such
/// folder. Throws Failure(checkpoint).
void set_logs_aside(const std::filesystem::path& run, const Log& log);

}  // namespace llmc
