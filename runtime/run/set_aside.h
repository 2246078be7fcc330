// Logs of a start that saved nothing, kept under another name where the run begins anew.
#pragma once

#include <filesystem>

#include "checkpoint/checkpoint.h"

namespace llmc {

/// Moves tensorboard/, samples.jsonl and metrics.jsonl of `run`, where one of these has something, to a new folder
/// RUN/set-aside-N, and says so to `log`. Cut short by a kill, the next start moves the rest to a folder of its own.
/// Throws Failure(checkpoint).
void set_logs_aside(const std::filesystem::path& run, const Log& log);

}  // namespace llmc
