#include "train/evaluation.h"

#include <fmt/format.h>

#include "comm/collectives.h"
#include "error.h"
#include "plural.h"

namespace llmc {

Evaluation::Evaluation(std::shared_ptr<const TokenShards> shards, const ProgramInfo& info, std::int64_t sequences)
    : shards_(std::move(shards)),
      sequence_length_(info.sequence_length),
      micro_batch_(info.micro_batch),
      sequences_(sequences) {
  if (shards_->samples(sequence_length_) < 1)
    throw Failure(Exit::data,
                  fmt::format("the validation data hold {} token{}, too few for one sample of {}; use more data, or "
                              "evaluation.every=0",
                              shards_->tokens(), plural(shards_->tokens()), sequence_length_ + 1));
}

std::optional<Session::Evaluated> Evaluation::run(Session& session, const std::function<bool()>& interrupted) {
  if (batches_.empty()) batches_ = evaluation_batches(shards_, sequence_length_, micro_batch_, sequences_);
  std::int64_t targets = 0;
  for (const MicroBatch& batch : batches_) targets += batch.target_count;
  const float scale = static_cast<float>(1.0 / static_cast<double>(targets));
  const auto rank = static_cast<std::size_t>(session.ranks().rank()),
             ranks = static_cast<std::size_t>(session.ranks().world_size());
  const std::size_t rounds = (batches_.size() + ranks - 1) / ranks;
  const bool together = session.passes_together();
  if (rank >= batches_.size() && !together) session.evaluate_nothing();
  for (std::size_t i = rank; i < rounds * ranks; i += ranks) {
    if (interrupted()) return std::nullopt;
    const bool first = i == rank;
    if (i < batches_.size())
      session.evaluate(batches_[i], scale, first);
    else if (together)
      session.evaluate(without_targets(batches_.front()), scale, first);
  }
  return session.evaluated();
}

}  // namespace llmc
