// Rolls a run back to a checkpoint before skipped updates, and skips the samples that caused them.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "checkpoint/checkpoint.h"
#include "comm/rendezvous.h"
#include "run/history.h"
#include "run/run_folder.h"
#include "run/run_mirror.h"
#include "step/session.h"

namespace llmc {

/// State of a checkpoint that a rollback has led to: the run continues in the order of `left`, after the samples of the
/// abandoned steps. Samples between the checkpoint and the first skipped step are skipped as well: they led to the
/// weights that failed.
TrainState rolled_back(TrainState saved, const OrderFrom& left);

/// State with which the run continues at rolled_back(). Throws Failure if a start from there would be refused.
using ResumeAt = std::function<TrainState(const TrainState&)>;

/// Result of roll_back().
struct WentBack {
  std::optional<TrainState> state;        // nothing: the run has not gone back
  std::optional<std::int64_t> step = {};  // of the checkpoint that was found
  std::string refusal = {};               // of a start from there; empty for a checkpoint of another trainer
};

/// Loads the newest complete checkpoint of `run` from before step `first_skipped`. Leaves the run folder (rank 0; null
/// on other ranks) as a resume from there would: newer checkpoints, metrics, samples and events are removed, and its
/// history gets a line that equals `start` except for the position. `now`: the abandoned state, at the end of the last
/// skipped step. `mirror`: of rank 0, null if none; the same checkpoints are removed from it, and a failure is only a
/// warning.
/// Changes nothing if there is none, if it is from before step `earliest`: of another trainer, or if `resume_at`
/// refuses it. Collective. Throws Failure.
WentBack roll_back(const std::filesystem::path& run, const RunMirror* mirror, RunFolder* folder, const TrainState& now,
                   std::int64_t first_skipped, std::int64_t earliest, const std::string& why, const HistoryEntry& start,
                   const ResumeAt& resume_at, Session& session, Rendezvous& ranks, const Log& log);

}  // namespace llmc
