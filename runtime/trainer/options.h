// Command-line options of a trainer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "program/program.h"
#include "step/timeline.h"
#include "trainer/commands/calibrate.h"
#include "trainer/commands/saved_commands.h"

namespace llmc {

struct Options {
  std::filesystem::path run;          // run folder; default: runs/NAME in `base`
  bool run_named = false;             // set by --run
  std::string resume = "auto";        // auto | none | directory of a checkpoint or a run
  std::vector<std::string> allow;     // guarded keys that a resume may change
  bool follow_spec = false;           // a resume uses the trainer's run-time values instead of the run's own
  std::vector<std::string> followed;  // keys whose values a resume takes from the trainer, as a border changes them
  std::optional<std::int64_t> steps;  // stop after this step
  std::filesystem::path trace;        // empty: no trace
  std::filesystem::path timing;       // empty: none
  std::filesystem::path timeline;     // empty: none
  std::optional<StepWindow> timeline_steps;
  std::filesystem::path base;          // base of the spec's relative paths
  std::vector<std::string> overrides;  // "key.path=value"
  std::vector<std::string> command;    // all arguments, for messages that repeat the command
  int ranks = 0;                       // ranks to start on this machine; 0: this process is one rank, as its launcher
                                       // sets
  int peer_timeout = 30;               // seconds without a sign of life after which another rank counts as lost
  int collective_timeout = 600;        // seconds that a collective may take, unless 100 steps take longer
  int start_timeout = 600;             // seconds within which all ranks must have connected
  double deadline = 0;                 // seconds from the start by which everything must be saved; 0: none
  int threads = 0;                     // 0: OMP_NUM_THREADS or the affinity mask
  std::optional<int> device;           // default: the launcher's local rank, or the first device
  std::optional<StepWindow> profile;   // steps to show to a profiler
  bool final_checkpoint = true;
  std::optional<StepWindow> batches;  // steps whose samples are printed instead of training
  bool plan = false, json = false, quiet = false, tune = false;
  double sustained_ms = 200;                  // for tune, for each of the fastest candidates
  std::optional<CalibrateCommand> calibrate;  // instead of training
  std::optional<EvaluateCommand> evaluate;
  std::optional<SampleCommand> sample;
  bool text = false;  // with batches: print the samples' text
};

/// Returns whether the command line gives the key a value.
bool overrides(const Options& options, const std::string& key);

/// Returns nothing if --help or --version was printed. `default_base`: called if a run needs it and --base is not
/// given. Throws Failure(usage).
std::optional<Options> parse_options(int argc, char** argv, const ProgramInfo& info,
                                     const std::function<std::filesystem::path()>& default_base);

}  // namespace llmc
