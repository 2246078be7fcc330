// Finds the state a run starts from: none, or a checkpoint of this or another run folder.
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

/// `resume`: auto | none | directory of a checkpoint, or of a run: its newest complete one. `depth`: how thoroughly a
/// checkpoint that is not named is checked against its manifest; with `sizes` it must not be loaded. Nothing: start
/// from the beginning. Throws Failure(checkpoint) if
///   auto: the folder has checkpoints and all are damaged, or has none although its run had saved;
///   none: the folder holds a run;
///   a directory: it does not exist, or the run folder has a newer checkpoint, which a later `auto` would take instead.
std::optional<StartPoint> find_start(const std::filesystem::path& run, const std::string& resume, const Log& log,
                                     Depth depth = Depth::checksums);

}  // namespace llmc
