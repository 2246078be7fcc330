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

/// Adds the bytes of the targets' decoded text; returns false if the tokenizer lacks one of them.
bool add_text_bytes(std::span<const std::int32_t> targets, const Tokenizer& tokenizer, std::int64_t& bytes) {
  for (const std::int32_t& target : targets) {
    if (target < 0) continue;
    if (target >= tokenizer.vocab_size()) return false;
    bytes += static_cast<std::int64_t>(tokenizer.decode(std::span(&target, 1)).size());
  }
  return true;
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

void Evaluation::read(DataRank self) {
  bool known = tokenizer_ != nullptr;
  std::int64_t bytes = 0;
  batches_ = evaluation_batches(
      shards_, sequence_length_, micro_batch_, sequences_, documents_, self,
      [&](std::span<const std::int32_t> targets) { known = known && add_text_bytes(targets, *tokenizer_, bytes); });
  if (known) bytes_ = bytes;
}

std::optional<Validation> Evaluation::run(Session& session, const std::function<bool()>& interrupted) {
  const auto ranks = static_cast<std::int64_t>(session.mesh().data.size);
  if (batches_.count == 0) read(session.mesh().data);
  const std::int64_t targets = batches_.targets;
  if (targets == 0)
    throw Failure(Exit::data,
                  "the validation data have no targets: each of their tokens follows a separator, and "
                  "data.documents.mask_first leaves such targets out. Write data.documents.separator: the token that "
                  "ends documents, or mask_first: false");
  const float scale = static_cast<float>(1.0 / static_cast<double>(targets));
  const auto rounds = static_cast<std::size_t>((batches_.count + ranks - 1) / ranks);
  const bool together = session.passes_together();
  session.begin_evaluation();
  for (std::size_t i = 0; i < rounds; ++i) {
    if (interrupted()) return std::nullopt;
    if (i < batches_.own.size())
      session.evaluate(batches_.own[i], scale, i == 0);
    else if (together)
      session.evaluate(batches_.idle, scale, i == 0);
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
