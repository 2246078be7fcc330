// The record of a sweep: its grid, trainers and runs, in the file DIR/sweep.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "compiler/tools/sweep/grid.h"

namespace llmc::sweep {

enum class State {
  waiting,   // not started yet
  running,   // a trainer runs
  stopped,   // ended early with everything saved: the next start goes on
  failed,    // ended with an error: the next start tries again
  finished,  // did all its steps
  pruned,    // ended by the rule of --prune
  diverged   // ended by the run's guards (exit 7)
};
const char* name(State state);
/// Whether the sweep does not start the run again.
bool is_final(State state);

struct Run {
  std::string folder;     // in the sweep's: "runs/0001"
  std::size_t build = 0;  // index into Record::builds
  State state = State::waiting;
  int exit_code = 0;   // of the last start
  std::string reason;  // of an early end; empty: none
  std::int64_t step = 0, steps = 0;
  std::optional<double> loss;  // mean training loss of the last twentieth of the steps done
  std::optional<double> val_loss;

  /// Takes over how the run ended in an earlier start of the sweep, and not its place.
  void take_end(const Run& before);
};

/// A trainer that several runs share.
struct Build {
  std::string folder;                 // in the sweep's: "builds/1"
  std::vector<std::string> compiled;  // overrides that it is compiled with
};

struct Record {
  std::string spec;    // absolute path
  std::string digest;  // of the resolved specs of all runs
  Grid grid;
  std::vector<Build> builds;
  std::vector<Run> runs;
};

inline constexpr char kFile[] = "sweep.json";

/// Writes DIR/sweep.json atomically, with the ranking (table.h) of the runs so far. Throws Failure(usage).
void write(const std::filesystem::path& folder, const Record& record);

/// Reads DIR/sweep.json; nothing if there is none. Throws Failure(usage) that names the file if it is damaged.
std::optional<Record> read(const std::filesystem::path& folder);

}  // namespace llmc::sweep
