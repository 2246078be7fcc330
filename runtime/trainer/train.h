// Training as one rank of a run: from a command line to an exit code.
#pragma once

#include <optional>

#include "comm/launch.h"
#include "comm/rendezvous.h"
#include "program/program.h"
#include "train/signals.h"
#include "trainer/options.h"

namespace llmc {

/// Returns when every rank has trained, or has saved on a request to stop. `signals` is watched from the first step on,
/// and by the caller's wish longer than this runs. Throws Failure; SharedFailure where all ranks end by it.
int train(const Options& options, const Program& program, const Launch& launch, Rendezvous& rendezvous,
          std::optional<SignalWatch>& signals);

}  // namespace llmc
