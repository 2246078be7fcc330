// Trains as one rank of a run: from command line to exit code.
#pragma once

#include <optional>

#include "comm/launcher.h"
#include "comm/rendezvous.h"
#include "program/program.h"
#include "train/signals.h"
#include "trainer/startup/phase.h"

namespace llmc {

/// Returns when every rank has trained, or has saved after a request to stop. `signals` is watched from the first step
/// on; the caller decides how long it outlives this call. Throws Failure; SharedFailure if all ranks fail together.
int train(PhaseStart start, const Program& program, const TrainerPhases& phases, const LauncherInfo& launch,
          Rendezvous& rendezvous, std::optional<SignalWatch>& signals);

}  // namespace llmc
