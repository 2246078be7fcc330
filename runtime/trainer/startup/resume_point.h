// Where a run starts: anew, or from a checkpoint of this run folder or of another.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/checkpoint.h"

namespace llmc {

struct StartPoint {
  std::filesystem::path checkpoint;
  Trust trust;
};

/// `depth`: how a checkpoint that is not named is held against its manifest; with `sizes` it is not to be loaded.
/// `resume`: auto | none | the directory of a checkpoint, or of a run: its newest whole one. Nothing: start anew.
/// Throws Failure(checkpoint) when
///   auto: the folder has checkpoints and all of them are damaged, or has none though the run in it came further;
///   none: the folder holds a run;
///   a directory: there is none, or the run folder has a newer checkpoint, which a later `auto` would take instead.
std::optional<StartPoint> find_start(const std::filesystem::path& run, const std::string& resume, const Log& log,
                                     Depth depth = Depth::checksums);

}  // namespace llmc
