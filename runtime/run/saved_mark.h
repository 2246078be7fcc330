// state/saved: records that a run has saved, also after its checkpoints are gone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace llmc {

/// Step of the newest checkpoint written in `run`; 0 if the file cannot be read. Nothing if none was written.
std::optional<std::int64_t> saved_step(const std::filesystem::path& run);

/// Records that a checkpoint was written. Throws Failure(checkpoint).
void note_saved(const std::filesystem::path& run, std::int64_t step);

}  // namespace llmc
