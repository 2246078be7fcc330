// Phases of a run: those of a trainer, which one a start belongs to, and what a border changes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/launcher.h"
#include "program/phases.h"
#include "program/program.h"
#include "trainer/options.h"
#include "trainer/startup/resume_point.h"

namespace llmc {

/// Environment variable that `llmc run` sets: a trainer whose phase is over becomes that of the next one, which finds
/// the phases of the one before in it.
inline constexpr char kPhasesVariable[] = "LLMC_PHASES";
/// Set for the ranks that --ranks starts: the process that started them goes on to the next phase.
inline constexpr char kStarterVariable[] = "LLMC_STARTER";

/// Result of train() for a phase that has all its steps, and that another one follows. The process ends with 75.
inline constexpr int kPhaseIsDone = 1000;

/// The phases whose steps a trainer has, and its constants in each of them. Phases that are compiled alike have one
/// trainer, which passes the borders between them by itself.
class TrainerPhases {
 public:
  explicit TrainerPhases(const ProgramInfo& info);
  TrainerPhases(const TrainerPhases&) = delete;
  TrainerPhases& operator=(const TrainerPhases&) = delete;

  const ProgramInfo& first() const { return info_; }
  bool has(int number) const;
  /// The program's constants with the texts of phase `number`; shapes are those of this trainer. The keys that change
  /// include derived ones. They live as long as this object.
  ProgramInfo in(int number) const;

 private:
  struct Texts {
    int number;
    std::vector<std::string> changed;
    std::vector<const char*> changed_keys;  // the same
    std::string plan_text, plan_json, spec_yaml;
  };
  const ProgramInfo& info_;
  std::vector<Texts> texts_;  // of all phases of the run; empty: it has none
};

struct PhaseStart {
  Options options;        // of a start at the border to this phase: with its values, and with its changed keys allowed
  int number = 1;         // of the phase whose step is next; that of the last one for a finished run
  std::int64_t step = 0;  // at which the start resumes
  Options asked = {};     // those of the command line
  bool moved = false;     // the checkpoint is of another phase, by the borders that the run had before
};

/// Finds the phase of a start, by the newest checkpoint, whose checksums are not checked. Throws Failure as
/// find_start(), and Failure(usage) if a number of steps is overridden.
PhaseStart find_phase(const Options& options, const TrainerPhases& phases);

/// Same by the checksums, once the run folder is locked: a damaged checkpoint, or one that a trainer has saved in the
/// meantime, makes it another one than `found`. `from`: find_start(). Throws Failure(checkpoint) if it is of a phase of
/// another trainer.
PhaseStart phase_again(const PhaseStart& found, const TrainerPhases& phases, const std::optional<StartPoint>& from);

/// Beginning of the argument phase=N of --plan, which is no override.
inline constexpr std::string_view kPhaseWord = "phase=";

/// Phase whose plan --plan prints: that of the argument phase=N; else that of the run's next step, if this trainer has
/// it; else, and if the run's state cannot be read, the trainer's first. Throws Failure(usage) for a phase of another
/// trainer.
int phase_of_plan(const Options& options, const TrainerPhases& phases);

/// Options of a start at a border between phases: the keys that `phase` changes are followed and allowed.
Options options_at_border(Options options, const PhaseInfo& phase);

/// Same for all phases of a trainer.
Options options_at_any_border(Options options, const TrainerPhases& phases);

/// Last step of this start: that of the run, or of the last phase that this trainer reaches by itself.
std::int64_t stop_in_phase(const ProgramInfo& info, std::int64_t last_step);

/// Borders whose checkpoint is kept: those at which another trainer takes over.
std::vector<std::int64_t> kept_borders(const PhaseInfo& phase);

/// The start that --batches prints samples of. Throws Failure(usage) for steps past its phase, whose samples are not
/// known yet, and if another trainer has its phase.
PhaseStart options_for_batches(const Options& options, const TrainerPhases& phases);

/// Whether the newest checkpoint is the one between this trainer and the next.
bool is_at_border(const Options& options, const ProgramInfo& info);

/// Throws Failure(usage) if the trainer that became this one was compiled with other phases: each could pass a run to
/// the other for ever.
void check_same_phases(const PhaseInfo& phase);

/// Becomes the trainer of another phase, if this process is no rank and `llmc run` asked for it. Else returns 75, and
/// rank 0 prints which trainer to start; throws Failure(usage) instead for an earlier phase. With --deadline it becomes
/// none: the deadline is of this process. `words`: the command line of that trainer, whose first word is replaced.
int leave_to(const PhaseStart& to, const ProgramInfo& info, const LauncherInfo& launch, std::vector<std::string> words);

/// Arguments for the next phase of those that this one had: without steps to look at, which were of this phase.
std::vector<std::string> words_for_next(const std::vector<std::string>& argv);

}  // namespace llmc
