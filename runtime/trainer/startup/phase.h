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

struct PhaseStart {
  Options options;        // of a start at the border to this phase: with its values, and with its changed keys allowed
  int number = 1;         // of the phase whose step is next; that of the last one for a finished run
  std::int64_t step = 0;  // at which the start resumes
};

/// Finds the phase of a start. Throws Failure as find_start(), and Failure(usage) if a number of steps is overridden.
PhaseStart find_phase(const Options& options, const ProgramInfo& info);

/// Last step of this start: that of the run, or of its phase.
std::int64_t stop_in_phase(const ProgramInfo& info, std::int64_t last_step);

/// Whether the run has come to the end of a phase that another one follows.
bool is_at_border(const Options& options, const ProgramInfo& info);

/// Becomes the trainer of another phase, if this process is no rank and `llmc run` asked for it. Else returns 75, and
/// rank 0 prints which trainer to start; throws Failure(usage) instead for an earlier phase. `argv`: the words of this
/// process.
int leave_to(int number, std::int64_t step, const ProgramInfo& info, const LauncherInfo& launch,
             const std::vector<std::string>& argv);

}  // namespace llmc
