// Going back: to the state before updates that had to be skipped, and on behind the samples that they came with.
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

/// Loads the newest whole checkpoint of `run` from before step `first_skipped`, and leaves the run folder (of rank 0,
/// else null) as a resume from there does: newer checkpoints, metrics, samples and events are gone, and its history has
/// a line, `start`'s but for the place. `now`: the state that is left, at the end of the last skipped step. The state
/// returned stands in the data where `now` does. Nothing, with everything as it was, where there is no such checkpoint.
/// `mirror`: that of rank 0, which loses the same checkpoints; one that fails is a warning. Null: there is none.
/// Collective. Throws Failure.
std::optional<TrainState> roll_back(const std::filesystem::path& run, const RunMirror* mirror, RunFolder* folder,
                                    const TrainState& now, std::int64_t first_skipped, const std::string& why,
                                    const HistoryEntry& start, Session& session, Rendezvous& ranks, const Log& log);

}  // namespace llmc
