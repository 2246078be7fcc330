// Copies checkpoints to a second folder, on another disk.
#pragma once

#include <filesystem>

#include "checkpoint/checkpoint.h"

namespace llmc {

inline constexpr Writer kMirrorWriter{Exit::checkpoint, "checkpoint.mirror", false};

/// Copies a complete checkpoint of step `step` to MIRROR/checkpoints, where it appears by one rename after every file's
/// checksum was checked; then applies retention there. Throws Failure(checkpoint); the mirror is unchanged then.
void mirror_checkpoint(const std::filesystem::path& checkpoint, std::int64_t step, const std::filesystem::path& mirror,
                       const Retention& retention, const Log& log);

/// Throws Failure(checkpoint) if `mirror` cannot be written, or one of `mirror` and the run folder contains the other.
void check_mirror(const std::filesystem::path& mirror, const std::filesystem::path& run);

}  // namespace llmc
