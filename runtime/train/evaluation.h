// Computes the loss on held-out data: always on the same samples, without changing the training state.
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

/// Result of an evaluation, over its targets.
struct Validation {
  std::string set;                      // name of the set; empty: data.validation.path
  double loss = 0;                      // mean, nats
  double top1 = 0;                      // fraction whose largest logit is the target's; see StepResults
  std::optional<double> bits_per_byte;  // of the targets' text; nothing if the tokenizer cannot decode them
};

/// Loss of a set among those evaluated; nothing if it is not among them.
std::optional<double> loss_of(std::span<const Validation> all, const std::string& set);

class Evaluation {
 public:
  /// `set`: its name, empty for data.validation.path. Reads `sequences` samples (fewer if the set has fewer) at the
  /// first run. `tokenizer` (null: none) decodes them. Throws Failure(data) if there are no samples.
  /// run() throws Failure(data) if `documents` masks all their targets.
  Evaluation(std::string set, std::shared_ptr<const TokenShards> shards, const ProgramInfo& info,
             std::int64_t sequences, std::shared_ptr<const Tokenizer> tokenizer, DocumentRule documents = {});

  const std::string& set() const { return set_; }

  /// Changes with the evaluated samples.
  std::string fingerprint() const { return shards_->fingerprint(); }

  /// Returns nothing if `interrupted` returned true between two batches.
  std::optional<Validation> run(Session& session, const std::function<bool()>& interrupted);

 private:
  /// Reads the batches once, of this rank, and the number of bytes of all.
  void read(DataRank self);

  std::string set_;
  std::shared_ptr<const TokenShards> shards_;
  std::int64_t sequence_length_, micro_batch_, sequences_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  DocumentRule documents_;
  EvaluationBatches batches_;
  std::int64_t bytes_ = 0;  // of the targets' text; 0: unknown
};

/// Evaluates all sets in order; empty if `interrupted` returned true.
std::vector<Validation> evaluate_all(std::span<Evaluation> sets, Session& session,
                                     const std::function<bool()>& interrupted);

}  // namespace llmc
