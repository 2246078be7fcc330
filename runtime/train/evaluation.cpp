#include "train/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <numbers>
#include <span>

#include "comm/collectives.h"
#include "error.h"
#include "text/plural.h"

namespace llmc {

namespace {

/// Bytes of the targets' decoded text; 0 if the tokenizer lacks one of them.
std::int64_t text_bytes(const std::vector<MicroBatch>& batches, const Tokenizer& tokenizer) {
  std::int64_t bytes = 0;
  for (const MicroBatch& batch : batches)
    for (const std::int32_t& target : batch.targets) {
      if (target < 0) continue;
      if (target >= tokenizer.vocab_size()) return 0;
      bytes += static_cast<std::int64_t>(tokenizer.decode(std::span(&target, 1)).size());
    }
  return bytes;
}

}  // namespace

std::optional<double> loss_of(std::span<const Validation> all, const std::string& set) {
  const auto found = std::ranges::find(all, set, &Validation::set);
  return found == all.end() ? std::nullopt : std::optional(found->loss);
}

Evaluation::Evaluation(std::string set, std::shared_ptr<const TokenShards> shards, const ProgramInfo& info,
                       std::int64_t sequences, std::shared_ptr<const Tokenizer> tokenizer, DocumentRule documents)
    : set_(std::move(set)),
      shards_(std::move(shards)),
      sequence_length_(info.sequence_length),
      micro_batch_(info.micro_batch),
      sequences_(sequences),
      tokenizer_(std::move(tokenizer)),
      documents_(documents) {
  if (shards_->samples(sequence_length_) < 1)
    throw Failure(
        Exit::data,
        fmt::format(
            "the validation data{} have {} token{}, too few for one sample of {}. Use more data, or evaluation.every=0",
            set_.empty() ? "" : fmt::format(" '{}'", set_), shards_->tokens(), plural(shards_->tokens()),
            sequence_length_ + 1));
}

std::optional<Validation> Evaluation::run(Session& session, const std::function<bool()>& interrupted) {
  if (batches_.empty()) {
    batches_ = evaluation_batches(shards_, sequence_length_, micro_batch_, sequences_, documents_);
    if (tokenizer_) bytes_ = text_bytes(batches_, *tokenizer_);
  }
  std::int64_t targets = 0;
  for (const MicroBatch& batch : batches_) targets += batch.target_count;
  if (targets == 0)
    throw Failure(Exit::data,
                  "the validation data have no targets: each of their tokens follows a separator, and "
                  "data.documents.mask_first leaves such targets out. Write data.documents.separator: the token that "
                  "ends documents, or mask_first: false");
  const float scale = static_cast<float>(1.0 / static_cast<double>(targets));
  const auto rank = static_cast<std::size_t>(session.mesh().data.index),
             ranks = static_cast<std::size_t>(session.mesh().data.size);
  const std::size_t rounds = (batches_.size() + ranks - 1) / ranks;
  const bool together = session.passes_together();
  session.begin_evaluation();
  for (std::size_t i = rank; i < rounds * ranks; i += ranks) {
    if (interrupted()) return std::nullopt;
    const bool first = i == rank;
    if (i < batches_.size())
      session.evaluate(batches_[i], scale, first);
    else if (together)
      session.evaluate(without_targets(batches_.front()), scale, first);
  }
  const Session::Evaluated means = session.evaluated();
  Validation validation{set_, means.loss, means.top1, {}};
  if (bytes_ > 0)
    validation.bits_per_byte =
        means.loss / std::numbers::ln2 * static_cast<double>(targets) / static_cast<double>(bytes_);
  return validation;
}

std::vector<Validation> evaluate_all(std::span<Evaluation> sets, Session& session,
                                     const std::function<bool()>& interrupted) {
  std::vector<Validation> all;
  for (Evaluation& set : sets) {
    std::optional<Validation> one = set.run(session, interrupted);
    if (!one) return {};
    all.push_back(std::move(*one));
  }
  return all;
}

}  // namespace llmc
