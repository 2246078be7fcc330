// Checks the phases of a run that are ahead of a start, before its first step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/order/sources.h"
#include "program/program.h"
#include "spec/spec.h"
#include "trainer/options.h"
#include "trainer/startup/phase.h"
#include "trainer/startup/prepare.h"

namespace llmc {

/// A phase that reads on in the run's data up to step `stop`. `values`: with resolved paths.
struct PhaseAhead {
  spec::Spec values;
  Sources sources;
  std::int64_t stop;
};

/// Follows the data through the phases, exactly: what the first of them reads from `start` on, after `done` steps, is
/// read no more by the next. `start`: nothing for a run that begins. Throws Failure(data) if a source is passed more
/// often than its most_epochs, with the largest number of steps that fits. Sources of which the run knows no
/// fingerprint yet are told apart by their paths.
void check_epochs_ahead(std::vector<PhaseAhead> phases, const std::optional<DataPosition>& start, std::int64_t done);

/// Same for a start with the values and sources of `now`: for the phases of all trainers, up to the first
/// one whose data is not here yet.
void check_epochs_ahead(const Options& options, const TrainerPhases& phases, const ProgramInfo& now,
                        const StartValues& values, const Sources& sources, const std::optional<DataPosition>& start,
                        std::int64_t done);

/// Tokens of the steps after `done` up to `stop`, with the batches of their phases, for a start with the values of
/// `now`.
std::int64_t tokens_ahead(const Options& options, const TrainerPhases& phases, const ProgramInfo& now,
                          const StartValues& values, std::int64_t done, std::int64_t stop);

/// Checks values and files of the phases that this trainer passes to after that of `info`, and the epochs of all that
/// follow. Returns what must be equal on all ranks; of one rank nothing. Throws Failure.
Rendezvous::Facts check_later_phases(const Options& options, const TrainerPhases& phases, const ProgramInfo& info,
                                     const Prepared& prepared, int ranks);

}  // namespace llmc
