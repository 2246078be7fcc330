// state/saved: that a run folder has saved, which it remembers when its checkpoints are gone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace llmc {

/// The step of the checkpoint that appeared last in `run`; 0 where the file cannot be read. Nothing where none
/// appeared.
std::optional<std::int64_t> saved_step(const std::filesystem::path& run);

/// Notes a checkpoint that has appeared. Throws Failure(checkpoint).
void note_saved(const std::filesystem::path& run, std::int64_t step);

}  // namespace llmc
