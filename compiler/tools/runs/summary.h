// Summarises the run of a run folder, and finds run folders below a folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace llmc::runs {

enum class RunState {
  running,    // a trainer holds the folder's lock
  finished,   // the last step of the schedule is done and saved
  stopped,    // ended earlier, with everything saved
  failed,     // ended otherwise: steps after the newest checkpoint are lost
  damaged,    // the folder's files cannot be parsed; Summary::problem has the reason
  unreadable  // this process may not read the folder; Summary::problem has the reason
};
const char* name(RunState state);

struct Summary {
  std::filesystem::path path;
  RunState state = RunState::damaged;
  std::string problem;  // empty: all is readable
  std::int64_t step = 0, steps = 0;
  std::optional<double> loss;               // of `step`; NaN if it was not finite
  std::optional<double> val_loss;           // of spec::leading_set()
  std::int64_t val_step = 0;                // the step of val_loss
  std::optional<double> tokens_per_second;  // median of the last 100 steps
  std::string started;                      // UTC; empty: never
};

/// Summarises a run folder. Errors in it do not throw: `problem` describes them.
Summary summarise(const std::filesystem::path& run);

inline constexpr int kDeepest = 8;  // levels below a named folder

struct FoundRuns {
  std::vector<std::filesystem::path> runs;    // sorted; includes unreadable folders, which may be runs
  std::vector<std::filesystem::path> others;  // folders without a run in or below them
  bool deeper = false;                        // folders more than kDeepest levels below were not searched
};

/// Returns `folder` if it is a run folder, else the run folders in and below it. Skips hidden folders, and follows
/// links to run folders only. Throws Failure(checkpoint) if `folder` cannot be read.
FoundRuns find_runs(const std::filesystem::path& folder);

}  // namespace llmc::runs
