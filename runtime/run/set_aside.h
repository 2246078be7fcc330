// Moves the logs of an earlier start that saved no checkpoint out of the way, before the run starts from step 0.
#pragma once

#include <filesystem>

#include "checkpoint/checkpoint.h"

namespace llmc {

/// Moves tensorboard/, samples.jsonl and metrics.jsonl of `run` to a new folder RUN/set-aside-N if one of them has
/// content, and reports it to `log`. If it is killed between two moves, the next start moves the rest to another such
/// folder. Throws Failure(checkpoint).
void set_logs_aside(const std::filesystem::path& run, const Log& log);

}  // namespace llmc
