// Names of checkpoint directories, and which of them go after a save.
#pragma once

#include <filesystem>

#include "checkpoint/checkpoint.h"

namespace llmc {

inline constexpr char kCheckpointPrefix[] = "step-";

/// Removes what Retention does not keep among the whole checkpoints up to step `saved`, which itself always stays.
/// Damaged ones do not count as kept and are left for their owner to examine. Failures are logged, never thrown: the
/// save is done.
void apply_retention(const std::filesystem::path& run, std::int64_t saved, const Retention& retention, const Log& log);

}  // namespace llmc
