// Works off the runs of a sweep: a trainer in each place until no run waits.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compiler/tools/sweep/pruning.h"
#include "compiler/tools/sweep/record.h"

namespace llmc::sweep {

struct Work {
  std::filesystem::path folder;  // of the sweep
  std::size_t places = 1;        // runs at a time
  std::optional<PruneRule> rule;
  /// Command line of a run in a place: the trainer's absolute path, then its arguments.
  std::function<std::vector<std::string>(std::size_t run, std::size_t place)> command;
  /// Likewise of an evaluation of the run's last step, with JSON lines; empty for a run that evaluates nothing then.
  std::function<std::vector<std::string>(std::size_t run, std::size_t place)> evaluation = {};
  std::function<void(const std::string&)> say;
};

/// Starts every run that is not final, evaluates those whose last evaluation was aborted, and keeps DIR/sweep.json up
/// to date. A signal (stop_signals.h) stops all trainers, which save first, and starts none. Returns 0 if every run
/// ended as it should; 75 if stopped; else the exit code of the first failed run.
int work_off(Record& record, const Work& work);

/// Takes what other machines did from the run folders: runs that have finished or failed there or still train, and all
/// steps and losses.
void look_up(Record& record, const std::filesystem::path& folder);

}  // namespace llmc::sweep
