// Loss on held-out data: the same samples every time, and nothing of the training state changes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "data/loader.h"
#include "data/tokenizer.h"
#include "train/session.h"

namespace llmc {

/// What an evaluation gives, over its targets.
struct Validation {
  double loss = 0;                      // mean, nats
  double top1 = 0;                      // share that are the model's first choice; see StepResults
  std::optional<double> bits_per_byte;  // of the targets' text; nothing where the tokenizer cannot say what that is
};

class Evaluation {
 public:
  /// `sequences` samples (fewer when there are fewer), read at the first run. `tokenizer` (null: none) is what their
  /// text is by, and outlives this. Throws Failure(data) when there are none.
  Evaluation(std::shared_ptr<const TokenShards> shards, const ProgramInfo& info, std::int64_t sequences,
             const Tokenizer* tokenizer);

  /// Nothing when `interrupted` said so between two batches.
  std::optional<Validation> run(Session& session, const std::function<bool()>& interrupted);

 private:
  std::shared_ptr<const TokenShards> shards_;
  std::int64_t sequence_length_, micro_batch_, sequences_;
  const Tokenizer* tokenizer_;
  std::vector<MicroBatch> batches_;
  std::int64_t bytes_ = 0;  // of the targets' text; 0: not known
};

}  // namespace llmc
