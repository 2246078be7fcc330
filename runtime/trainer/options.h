// The command line of a trainer.
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
  std::filesystem::path run;          // the run folder; by default runs/NAME in `base`
  bool run_named = false;             // by --run
  std::string resume = "auto";        // auto | none | a checkpoint's or a run's directory
  std::vector<std::string> allow;     // keys that a resume may change although they are guarded
  bool follow_spec = false;           // a resume takes the trainer's run-time values, not the run's own
  std::optional<std::int64_t> steps;  // stop after this step
  std::filesystem::path trace;        // empty: no trace
  std::filesystem::path timing;       // empty: none written
  std::filesystem::path timeline;     // empty: none written
  std::optional<StepWindow> timeline_steps;
  std::filesystem::path base;          // what the spec's relative paths are relative to
  std::vector<std::string> overrides;  // "key.path=value"
  std::vector<std::string> command;    // all of the words, for messages that show it again
  int ranks = 0;                       // to start on this machine; 0: this process is what its launcher says
  int peer_timeout = 30;               // seconds of silence after which another rank is lost
  int collective_timeout = 600;        // seconds that a collective may last, where 100 steps are not longer
  int start_timeout = 600;             // seconds within which all ranks must have come
  double deadline = 0;                 // seconds from the start by which everything is saved; 0: none
  int threads = 0;                     // 0: OMP_NUM_THREADS or the affinity mask
  std::optional<int> device;           // by default the launcher's local rank, or the first
  std::optional<StepWindow> profile;   // steps that a profiler is to see
  bool final_checkpoint = true;
  std::optional<StepWindow> batches;  // steps whose samples are to be printed, in place of a run
  bool plan = false, json = false, quiet = false, tune = false;
  double sustained_ms = 200;                  // of tune, for each of the fastest
  std::optional<CalibrateCommand> calibrate;  // in place of a run
  std::optional<EvaluateCommand> evaluate;
  std::optional<SampleCommand> sample;
  bool text = false;  // of batches
};

/// Whether a word of the command line gives the key a value.
bool overrides(const Options& options, const std::string& key);

/// Nothing when --help or --version was asked for and printed. `default_base`: called where a run needs it and --base
/// says nothing. Throws Failure(usage).
std::optional<Options> parse_options(int argc, char** argv, const ProgramInfo& info,
                                     const std::function<std::filesystem::path()>& default_base);

}  // namespace llmc
