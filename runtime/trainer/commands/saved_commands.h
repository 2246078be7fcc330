// Commands on saved weights: `trainer evaluate` and `trainer sample`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "program/program.h"

namespace llmc {

/// Options of both commands.
struct SavedCommand {
  std::filesystem::path checkpoint;  // argument of find_weights()
  std::filesystem::path base;        // base of the spec's relative paths
  int threads = 0;                   // 0: OMP_NUM_THREADS or the affinity mask
  std::optional<int> device;
};

struct EvaluateCommand : SavedCommand {
  std::string data;                       // pattern of shards; empty: the spec's validation data
  std::string set;                        // ValidationSet::word() of the set to evaluate; empty: all sets of the spec
  std::string format = "auto";            // of `data`
  std::vector<std::string> tasks;         // files to answer instead of data
  std::optional<std::int64_t> sequences;  // 0: all; nothing: as many as in the run's evaluations
  bool json = false;
};

struct SampleCommand : SavedCommand {
  std::vector<std::string> prompts;  // a text each; "-": standard input
  std::filesystem::path tokenizer;   // empty: the folder's own, or the spec's
  std::optional<std::int64_t> tokens;
  std::optional<double> temperature, top_p;
  std::optional<std::uint64_t> seed;
};

/// Prints the mean loss on held-out data with perplexity, top-1 accuracy and, where the text is known, bits a byte, for
/// each validation set or for `data`. With a run's data and sequences the loss equals val_loss of its metrics.jsonl to
/// the bit. With tasks, prints the accuracies of each. Throws Failure(checkpoint) for unusable weights, Failure(data)
/// for unusable data.
void evaluate(const EvaluateCommand& command, const Program& program);

/// Writes prompts and the model's continuations to standard output, token by token. Throws like evaluate().
void sample(const SampleCommand& command, const Program& program);

}  // namespace llmc
