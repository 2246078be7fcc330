// What a run needs before anything is trained: found, opened and checked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/weight_files.h"
#include "comm/rendezvous.h"
#include "program/program.h"
#include "run/run_folder.h"
#include "text/console.h"
#include "trainer/options.h"
#include "trainer/startup/inputs.h"
#include "trainer/startup/values.h"

namespace llmc {

struct Prepared {
  std::filesystem::path spec_file;    // that the trainer is compiled from; empty: not known
  std::unique_ptr<RunFolder> folder;  // of rank 0, where it is there already
  std::optional<StartPoint> start;
  std::optional<std::string> last;  // what ran in the folder before
  StartValues values;
  Inputs inputs;
  std::optional<WeightFiles> weights;  // of init.from, where the run begins
  TrainState state;
  std::vector<ShardRecord> shards;  // of the training data
  std::int64_t stop = 0;
  std::string model;

  /// Values that the run trains with.
  const spec::Spec& run() const { return values.run.spec; }
  /// Of a step.
  std::int64_t sequences(const ProgramInfo& info) const { return run().batch.tokens / info.sequence_length; }
};

/// All that a rank can find out by reading. Of many ranks, only the first (`owner`) holds the folder's lock, and a
/// folder is not made before all that can be refused without it is right. Throws Failure.
Prepared prepare(const Options& options, const ProgramInfo& info, const std::filesystem::path& spec_file, bool owner,
                 Console& console);

/// The shards that a start adds to the history: none where a line lists them, or where they are too many for one.
std::vector<ShardRecord> unlisted_shards(const Prepared& p, const std::string& history);

/// Throws Failure(toolchain) where this processor lacks instructions that the kernels may use.
void check_processor(const ProgramInfo& info);

/// Throws Failure(does_not_fit) where a step has less work than ranks.
void check_work(const ProgramInfo& info, const spec::Spec& run, int ranks);

/// What all ranks must have alike. Throws SharedFailure.
void agree(Rendezvous& ranks, const Options& options, const ProgramInfo& info, const Prepared& p);

/// Why there is no step to train; empty where there is one. Throws SharedFailure(usage) where there is none though the
/// command line asks for values to train with.
std::string nothing_to_do(const Prepared& p, const Options& options);

}  // namespace llmc
