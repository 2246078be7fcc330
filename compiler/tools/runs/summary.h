// What a run folder says of its run, and the run folders below a folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace llmc::runs {

enum class State {
  running,    // a trainer holds the folder's lock
  finished,   // the last step of the schedule is done, and saved
  stopped,    // ended earlier, with everything saved
  failed,     // ended otherwise: steps behind the newest checkpoint are lost
  damaged,    // what is in the folder cannot be parsed; Summary::problem says why
  unreadable  // the system does not let this process read the folder; Summary::problem says why
};
const char* name(State state);

struct Summary {
  std::filesystem::path path;
  State state = State::damaged;
  std::string problem;  // empty: all is readable
  std::int64_t step = 0, steps = 0;
  std::optional<double> loss;               // of `step`; NaN where it was not finite
  std::optional<double> val_loss;           // of spec::leading_set()
  std::int64_t val_step = 0;                // that had val_loss
  std::optional<double> tokens_per_second;  // median of the last 100 steps
  std::string started;                      // UTC; empty: never
};

/// Never throws for what is in the folder: that becomes `problem`.
Summary summarise(const std::filesystem::path& run);

struct Found {
  std::vector<std::filesystem::path> runs;    // sorted; with folders that cannot be read, which may be some
  std::vector<std::filesystem::path> others;  // folders with no run in them, nor below
};

/// `folder` itself where it is a run folder, else those in it and, where a folder is none, in that one; hidden folders
/// are passed over, and links are followed to run folders only. Throws Failure(checkpoint) where it cannot be read.
Found find_runs(const std::filesystem::path& folder);

}  // namespace llmc::runs
