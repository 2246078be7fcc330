// A second place for checkpoints, on another disk.
#pragma once

#include <filesystem>

#include "checkpoint/checkpoint.h"

namespace llmc {

inline constexpr Writer kMirrorWriter{Exit::checkpoint, "checkpoint.mirror", false};

/// Copies a whole checkpoint of step `step` to MIRROR/checkpoints, where it appears by one rename when every file has
/// the checksum of its manifest; then removes what retention does not keep there. Throws Failure(checkpoint), and then
/// the mirror is as before.
void mirror_checkpoint(const std::filesystem::path& checkpoint, std::int64_t step, const std::filesystem::path& mirror,
                       const Retention& retention, const Log& log);

/// Throws Failure(checkpoint) where `mirror` cannot be written or lies in the run folder, or the run folder in it.
void check_mirror(const std::filesystem::path& mirror, const std::filesystem::path& run);

}  // namespace llmc
