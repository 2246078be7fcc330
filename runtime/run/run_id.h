// state/run: a name drawn when a run begins, by which what belongs to it is known wherever its folder lies.
#pragma once

#include <filesystem>
#include <string>

namespace llmc {

/// 32 hex digits that no other run has.
std::string draw_run_id();

/// That of a run folder; empty where none can be read.
std::string run_id(const std::filesystem::path& run);

/// Notes it. Throws Failure(checkpoint).
void write_run_id(const std::filesystem::path& run, const std::string& id);

}  // namespace llmc
