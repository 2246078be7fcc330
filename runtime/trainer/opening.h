// Opens a run: finds its state under the folder's lock, checks it, and opens the files that a rank writes.
#pragma once

#include <memory>

#include "run/run_folder.h"
#include "run/run_mirror.h"
#include "trainer/rank.h"
#include "trainer/startup/phase.h"
#include "trainer/startup/prepare.h"

namespace llmc {

/// Finds values, checkpoint and data of a start on each rank; all ranks agree on them. `start`: of this rank, whose
/// options and phase may be others once the folder is locked. Throws SharedFailure; Failure if there is one rank.
/// Collective.
Prepared prepare_alike(Rank& rank, PhaseStart& start);

/// Rank 0 only; null if the run has no mirror.
std::unique_ptr<RunMirror> open_mirror(Rank& rank, const Prepared& p, const RunFolder& folder);

/// Whether a run has all its steps. Then an interrupted save is completed, and rank 0 prints why there is nothing to
/// do.
bool is_done(Rank& rank, const Prepared& prepared);

/// Rank 0 creates or locks the run folder and its mirror; the others open a log in it. Throws SharedFailure; Failure if
/// there is one rank. Collective.
RunFiles open_files(Rank& rank, Prepared& prepared);

}  // namespace llmc
