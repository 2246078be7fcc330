// What a trainer does with saved weights in place of a run: `trainer evaluate` and `trainer sample`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "program/program.h"

namespace llmc {

/// What both commands take.
struct SavedCommand {
  std::filesystem::path checkpoint;  // as find_saved_model() takes it
  std::filesystem::path base;        // of the spec's relative paths
  int threads = 0;                   // 0: OMP_NUM_THREADS or the affinity mask
  std::optional<int> device;
};

struct EvaluateCommand : SavedCommand {
  std::string data;                       // pattern of shards; empty: the spec's validation data
  std::string set;                        // of these, ValidationSet::word() of the one to evaluate; empty: all
  std::string format = "auto";            // of these shards
  std::optional<std::int64_t> sequences;  // 0: all of them; nothing: as many as an evaluation of the run has
  bool json = false;
};

struct SampleCommand : SavedCommand {
  std::vector<std::string> prompts;  // a text each; "-": standard input
  std::filesystem::path tokenizer;   // empty: the folder's own, or the spec's
  std::optional<std::int64_t> tokens;
  std::optional<double> temperature, top_p;
  std::optional<std::uint64_t> seed;
};

/// Prints the mean loss of held-out data, of each validation set or of `data`: for the data and sequences of a training
/// run what its metrics.jsonl has as val_loss, to the bit; with it perplexity and top-1 accuracy. Throws
/// Failure(checkpoint) for weights that cannot be used, Failure(data) for data.
void evaluate(const EvaluateCommand& command, const Program& program);

/// Writes prompts and what the model goes on with to standard output, as it is drawn. Throws as evaluate().
void sample(const SampleCommand& command, const Program& program);

}  // namespace llmc
