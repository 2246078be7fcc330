// Finds, opens and checks everything a run needs before training.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/weight_files.h"
#include "comm/rendezvous.h"
#include "data/order/forecast.h"
#include "program/program.h"
#include "run/run_folder.h"
#include "text/console.h"
#include "trainer/options.h"
#include "trainer/startup/inputs.h"
#include "trainer/startup/phase.h"
#include "trainer/startup/values.h"

namespace llmc {

struct Prepared {
  std::filesystem::path spec_file;    // spec the trainer was compiled from; empty: unknown
  std::unique_ptr<RunFolder> folder;  // of rank 0, if it already exists
  std::optional<StartPoint> start;
  std::optional<std::string> last;  // spec that ran in the folder before
  StartValues values;
  Inputs inputs;
  std::optional<WeightFiles> weights;  // of init.from, if the run starts from the beginning
  TrainState state;
  std::vector<ShardRecord> shards;  // of the training data
  std::int64_t stop = 0;
  std::string model;
  bool moved = false;         // the run takes the phase's values at this step, because the borders have moved
  bool went_back = false;     // a rollback has led to `start`, from a later phase
  bool other_losses = false;  // the losses of this step on must not be compared with those before
  std::string converted;      // HistoryEntry::converted, once the checkpoint is loaded

  /// Values that the run trains with.
  const spec::Spec& run() const { return values.run.spec; }
  /// Sequences per step.
  std::int64_t sequences(const ProgramInfo& info) const { return run().batch.tokens / info.sequence_length; }
  /// Its steps from here on, of the phase of `info`.
  RunLength length(const ProgramInfo& info) const {
    const std::int64_t last = info.phase.count == 1 ? stop : std::min(stop, info.phase.last());
    return {state.step, last, sequences(info), info.sequence_length, info.phase.count > 1};
  }
};

/// Does everything a rank can check by reading. `start`: find_start(). `owner`: rank 0. A folder is created only after
/// everything that can be refused without it has been checked. Throws Failure.
Prepared prepare(const Options& options, const ProgramInfo& info, const std::filesystem::path& spec_file,
                 const std::optional<StartPoint>& start, bool owner, Console& console);

/// The phase in which a start began, and its values there.
struct BeganWith {
  int phase;
  spec::Values values;
};

/// Same for a run in `state` that takes the values of another phase of its trainer, that of `info`, while it trains.
/// `before`: of the phase that it leaves. The values are those of values_of_phase(); those of the phase in which the
/// start began are as they were. `back`: the checkpoint to which a rollback has led, whose values are taken
/// as a resume takes them. `options`: options_at_any_border(). Throws Failure.
Prepared prepare_phase(const Options& options, const ProgramInfo& info, const Prepared& before, const TrainState& state,
                       const BeganWith& began, const std::optional<StartPoint>& back);

/// State with which a run of `p` continues at `at`, rolled_back() to a step of its phase: as a start from there has it.
/// Throws Failure if that start would be refused.
TrainState resume_in_phase(const Prepared& p, const ProgramInfo& info, const TrainState& at);

/// Shards that a start adds to the history: none if a line already lists them, or if they are too many.
std::vector<ShardRecord> unlisted_shards(const Prepared& p, const std::string& history);

/// Throws Failure(toolchain) if this processor lacks instructions that the kernels may use.
void check_processor(const ProgramInfo& info);

/// Throws Failure(does_not_fit) if a step has fewer micro-batches than there are ranks.
void check_work(const ProgramInfo& info, const spec::Spec& run, int ranks);

/// Values and data of a phase that must be equal on all ranks. `data`: fingerprint of the training data.
Rendezvous::Facts facts_of(const spec::Spec& run, const Inputs& inputs, const std::string& data);

/// Checks that what must be equal on all ranks is. `later`: the same of later phases. Throws SharedFailure. Collective.
void agree(Rendezvous& ranks, const Options& options, const ProgramInfo& info, const Prepared& p,
           const Rendezvous::Facts& later = {});

/// Returns why no step is left to train; empty if one is. Throws SharedFailure(usage) if none is left but the command
/// line requests values to train with.
std::string nothing_to_do(const Prepared& p, const Options& options);

}  // namespace llmc
