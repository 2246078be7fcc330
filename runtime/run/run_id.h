// state/run: a random id of a run, created at its first start. It identifies the run's files after its folder was
// moved.
#pragma once

#include <filesystem>
#include <string>

namespace llmc {

/// Draws 32 hex digits, unique to the run.
std::string draw_run_id();

/// Id of a run folder; empty if it cannot be read.
std::string run_id(const std::filesystem::path& run);

/// Writes the id. Throws Failure(checkpoint).
void write_run_id(const std::filesystem::path& run, const std::string& id);

}  // namespace llmc
