// Loss on held-out data: the same samples every time, and nothing of the training state changes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "data/loader.h"
#include "train/session.h"

namespace llmc {

class Evaluation {
 public:
  /// `sequences` samples (fewer when there are fewer), read at the first run. Throws Failure(data) when there are none.
  Evaluation(std::shared_ptr<const TokenShards> shards, const ProgramInfo& info, std::int64_t sequences);

  /// Means over the targets; nothing when `interrupted` said so between two batches.
  std::optional<Session::Evaluated> run(Session& session, const std::function<bool()>& interrupted);

 private:
  std::shared_ptr<const TokenShards> shards_;
  std::int64_t sequence_length_, micro_batch_, sequences_;
  std::vector<MicroBatch> batches_;
};

}  // namespace llmc
