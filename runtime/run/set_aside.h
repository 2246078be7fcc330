// Keeps the logs of a start that saved nothing under another name when the run begins anew.
#pragma once

#include <filesystem>

#include "checkpoint/checkpoint.h"

namespace llmc {

/// Moves tensorboard/, samples.jsonl and metrics.jsonl of `run` to a new folder RUN/set-aside-N if one of them has
/// content, and reports it to `log`. After a kill midway the next start moves the rest to a folder of its own. Throws
/// Failure(checkpoint).
void set_logs_aside(const std::filesystem::path& run, const Log& log);

}  // namespace llmc
