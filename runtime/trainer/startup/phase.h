// Phases of a run, each with a trainer of its own: which one a start belongs to, and what a border changes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/launcher.h"
#include "program/program.h"
#include "trainer/options.h"

namespace llmc {

/// Environment variable that `llmc run` sets: a trainer whose phase is over becomes that of the next one.
inline constexpr char kPhasesVariable[] = "LLMC_PHASES";
/// Set for the ranks that --ranks starts: the process that started them goes on to the next phase.
inline constexpr char kStarterVariable[] = "LLMC_STARTER";

/// Result of train() for a phase that has all its steps, and that another one follows. The process ends with 75.
inline constexpr int kPhaseIsDone = 1000;

struct PhaseStart {
  Options options;        // of a start at the border to this phase: with its values, and with its changed keys allowed
  int number = 1;         // of the phase whose step is next; that of the last one for a finished run
  std::int64_t step = 0;  // at which the start resumes
};

/// Finds the phase of a start. Throws Failure as find_start(), and Failure(usage) if a number of steps is overridden.
PhaseStart find_phase(const Options& options, const ProgramInfo& info);

/// Last step of this start: that of the run, or of its phase.
std::int64_t stop_in_phase(const ProgramInfo& info, std::int64_t last_step);

/// Throws Failure(checkpoint) if a step is not of this phase: the newest checkpoint, by which find_phase() chose it, is
/// damaged, and the one before it is of another phase.
void check_phase(const ProgramInfo& info, std::int64_t step);

/// Options of --batches as for a start. Throws Failure(usage) for steps past this phase, whose samples its trainer does
/// not know.
Options options_for_batches(const Options& options, const ProgramInfo& info);

/// Whether the newest checkpoint is the one between this phase and the next.
bool is_at_border(const Options& options, const ProgramInfo& info);

/// Becomes the trainer of another phase, if this process is no rank and `llmc run` asked for it. Else returns 75, and
/// rank 0 prints which trainer to start; throws Failure(usage) instead for an earlier phase. With --deadline it becomes
/// none: the deadline is of this process. `words`: the command line of that trainer, whose first word is replaced.
int leave_to(const PhaseStart& to, const ProgramInfo& info, const LauncherInfo& launch, std::vector<std::string> words);

/// Arguments for the next phase of those that this one had: without steps to look at, which were of this phase.
std::vector<std::string> words_for_next(const std::vector<std::string>& argv);

}  // namespace llmc
