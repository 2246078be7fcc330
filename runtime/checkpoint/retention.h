// Names of checkpoint directories, and removal of those not kept after a save.
#pragma once

#include <filesystem>

#include "checkpoint/checkpoint.h"

namespace llmc {

inline constexpr char kCheckpointPrefix[] = "step-";

/// Removes complete checkpoints up to step `saved` that Retention does not keep; `saved` itself is always kept. Damaged
/// ones do not count as kept and are left for the user to examine. Failures are logged and never thrown, because the
/// save is complete.
void apply_retention(const std::filesystem::path& run, std::int64_t saved, const Retention& retention, const Log& log);

}  // namespace llmc
