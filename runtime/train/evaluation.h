// Loss on held-out data: the same samples every time, and nothing of the training state changes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/loader.h"
#include "data/tokenizer.h"
#include "step/session.h"

namespace llmc {

/// What an evaluation gives, over its targets.
struct Validation {
  std::string set;                      // its name; empty: that of data.validation.path
  double loss = 0;                      // mean, nats
  double top1 = 0;                      // share that are the model's first choice; see StepResults
  std::optional<double> bits_per_byte;  // of the targets' text; nothing where the tokenizer cannot say what that is
};

/// Of a set among those that were evaluated; nothing where it is none of them.
std::optional<double> loss_of(std::span<const Validation> all, const std::string& set);

class Evaluation {
 public:
  /// `set`: its name, empty for that of data.validation.path. `sequences` samples (fewer when there are fewer), read at
  /// the first run. `tokenizer` (null: none) is what their text is by, and outlives this. Throws Failure(data) when
  /// there are none.
  Evaluation(std::string set, std::shared_ptr<const TokenShards> shards, const ProgramInfo& info,
             std::int64_t sequences, const Tokenizer* tokenizer);

  const std::string& set() const { return set_; }

  /// Changes with the samples that it is evaluated on.
  std::string fingerprint() const { return shards_->fingerprint(); }

  /// Nothing when `interrupted` said so between two batches.
  std::optional<Validation> run(Session& session, const std::function<bool()>& interrupted);

 private:
  std::string set_;
  std::shared_ptr<const TokenShards> shards_;
  std::int64_t sequence_length_, micro_batch_, sequences_;
  const Tokenizer* tokenizer_;
  std::vector<MicroBatch> batches_;
  std::int64_t bytes_ = 0;  // of the targets' text; 0: not known
};

/// All of them, one after the other; empty when `interrupted` said so.
std::vector<Validation> evaluate_all(std::span<Evaluation> sets, Session& session,
                                     const std::function<bool()>& interrupted);

}  // namespace llmc
