// The files that a run reads: opened, and held against the model, before anything is trained.
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
  std::vector<Evaluation> evaluation;          // where the run evaluates: each validation set
  std::unique_ptr<const Tokenizer> tokenizer;  // of texts that are shown and measured; null: token ids
  std::optional<Sampling> sampling;            // where the run samples
  std::vector<std::string> warnings;           // of data that can be read, and may not be what is meant
};

/// `run`: with paths that are resolved. Of `info`, the vocabulary, the length of a sequence and the micro-batch are
/// read. Throws Failure(data) for files that are damaged, in another format, too short, or of a larger vocabulary.
Inputs open_inputs(const spec::Spec& run, const ProgramInfo& info);

}  // namespace llmc
