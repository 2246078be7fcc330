// What follows a checkpoint that has appeared: a list that the next start completes where a kill cut it off.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "checkpoint/best.h"
#include "checkpoint/checkpoint.h"
#include "run/run_folder.h"
#include "run/run_mirror.h"
#include "spec/spec.h"

namespace llmc {

/// What the run keeps when the checkpoint of `step` has appeared.
struct Kept {
  std::int64_t step = 0;
  std::optional<Best> best;               // the record, this step included; nothing without checkpoint.best
  std::vector<std::int64_t> keep_before;  // as Retention's
};

/// Notes the save, writes best.json, brings the mirror (null: there is none) up to date, and removes what retention
/// does not keep. Each is done whatever comes of the others, whose failures go to `log`; done twice, nothing changes.
/// Of rank 0.
void follow_save(RunFolder& folder, const RunMirror* mirror, const spec::Checkpoint& policy, const Kept& kept,
                 const Log& log);

/// The same at a start from the checkpoint with `state`, where that is the folder's own.
void complete_save(RunFolder& folder, const RunMirror* mirror, const spec::Spec& values, const TrainState& state,
                   const std::filesystem::path& checkpoint, const Log& log);

}  // namespace llmc
