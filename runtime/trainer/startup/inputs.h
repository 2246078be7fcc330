// Opens the files that a run reads and checks them against the model before training.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/shards.h"
#include "data/tokenizer.h"
#include "program/program.h"
#include "spec/spec.h"
#include "train/evaluation.h"
#include "train/sampling.h"

namespace llmc {

struct Inputs {
  std::shared_ptr<const TokenShards> train;
  std::vector<Evaluation> evaluation;          // one per validation set; empty if the run does not evaluate
  std::unique_ptr<const Tokenizer> tokenizer;  // for displayed and measured text; null: token ids
  std::optional<Sampling> sampling;            // if the run samples
  std::vector<std::string> warnings;           // data that is readable but may not be what the user meant
};

/// `run`: with resolved paths. Uses only the vocabulary size, sequence length and micro-batch of `info`. Throws
/// Failure(data) for files that are damaged, in another format, too short, or of a larger vocabulary.
Inputs open_inputs(const spec::Spec& run, const ProgramInfo& info);

}  // namespace llmc
