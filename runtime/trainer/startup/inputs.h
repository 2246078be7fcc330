// Opens the files that a run reads and checks them against the model before training.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/documents.h"
#include "data/order/sources.h"
#include "data/tokenizer.h"
#include "program/program.h"
#include "spec/spec.h"
#include "train/evaluation.h"
#include "train/sampling.h"
#include "train/task.h"

namespace llmc {

struct Inputs {
  Sources train;
  DocumentRule documents;
  std::vector<Evaluation> evaluation;          // one per validation set; empty if the run does not evaluate
  std::vector<TaskEvaluation> tasks;           // one per task of an evaluation
  std::shared_ptr<const Tokenizer> tokenizer;  // for displayed and measured text; null: token ids
  std::optional<Sampling> sampling;            // if the run samples
  std::vector<std::string> warnings;           // data that is readable but may not be what the user meant
};

/// Opens the training data of `run`, with paths resolved. `vocab_size`: as TokenShards takes it. Throws Failure(data).
Sources open_sources(const spec::Data& data, std::int64_t vocab_size);

/// Warnings of files that two training sources of `run` name, or training and validation data, and of sources that are
/// never drawn. Paths are resolved. Throws Failure(data) as open_inputs().
std::vector<std::string> doubtful_data(const spec::Spec& run);

/// `run`: with resolved paths. Uses only the vocabulary size, sequence length and micro-batch of `info`. Throws
/// Failure(data) for files that are damaged, in another format, too short, or of a larger vocabulary.
Inputs open_inputs(const spec::Spec& run, const ProgramInfo& info);

}  // namespace llmc
