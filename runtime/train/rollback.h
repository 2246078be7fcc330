// Rolls a run back to a checkpoint before skipped updates, and skips the samples that caused them.
#pragma once

#include <optional>
#include <string>

#include "checkpoint/checkpoint.h"
#include "comm/rendezvous.h"
#include "run/history.h"
#include "run/run_folder.h"
#include "run/run_mirror.h"
#include "step/session.h"

namespace llmc {

/// Result of roll_back().
struct WentBack {
  std::optional<TrainState> state;             // nothing: the run has not gone back
  std::optional<std::int64_t> other_trainers;  // step of the checkpoint, if it is of another trainer
};

/// Loads the newest complete checkpoint of `run` from before step `first_skipped`. Leaves the run folder (rank 0; null
/// on other ranks) as a resume from there would: newer checkpoints, metrics, samples and events are removed, and its
/// history gets a line that equals `start` except for the position. `now`: the abandoned state, at the end of the last
/// skipped step. The returned state has the data position of `now`. `mirror`: of rank 0, null if none; the same
/// checkpoints are removed from it, and a failure is only a warning.
/// Changes nothing if there is none, or if it is from before step `earliest`: of another trainer. Collective. Throws
/// Failure.
WentBack roll_back(const std::filesystem::path& run, const RunMirror* mirror, RunFolder* folder, const TrainState& now,
                   std::int64_t first_skipped, std::int64_t earliest, const std::string& why, const HistoryEntry& start,
                   Session& session, Rendezvous& ranks, const Log& log);

}  // namespace llmc
