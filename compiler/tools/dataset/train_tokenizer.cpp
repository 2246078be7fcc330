#include "compiler/tools/dataset/train_tokenizer.h"

#include <fmt/format.h>
#include <sentencepiece_trainer.h>
#include <xxhash.h>

#include <algorithm>
#include <unordered_map>

#include "error.h"
#include "text/utf8.h"

namespace llmc::data {

namespace {

constexpr std::size_t kPassageBytes = 4096;

class Passages : public sentencepiece::SentenceIterator {
 public:
  explicit Passages(const std::vector<std::string>& texts) : texts_(texts) {}
  bool done() const override { return at_ >= texts_.size(); }
  void Next() override { ++at_; }
  const std::string& value() const override { return texts_[at_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  const std::vector<std::string>& texts_;
  std::size_t at_ = 0;
};

constexpr double kLeastCoverage = 0.98;      // sentencepiece's minimum for training
constexpr std::int64_t kReserved = 256 + 2;  // bytes, unknown, end of text

/// Returns the fraction of the sample's characters that get a token of their own. That is sentencepiece's default, or
/// less if the alphabet would take more than a quarter of the vocabulary, but not below its minimum. Throws
/// Failure(data) if the vocabulary has no room for that.
double character_coverage(const std::vector<std::string>& passages, std::int64_t vocab_size) {
  std::unordered_map<std::string_view, std::int64_t> count;
  std::int64_t total = 0;
  for (std::string_view text : passages) {
    while (!text.empty()) {
      const std::size_t length = std::max<std::size_t>(utf8_length(text), 1);
      ++count[text.substr(0, length)];
      ++total;
      text.remove_prefix(length);
    }
  }
  std::vector<std::int64_t> counts;
  for (const auto& [character, n] : count) counts.push_back(n);
  std::ranges::sort(counts, std::greater());
  const double all = static_cast<double>(std::max<std::int64_t>(total, 1));
  const std::int64_t quarter = (vocab_size - 256) / 4;
  std::int64_t taken = 0, covered = 0;
  for (const std::int64_t n : counts) {
    if (taken >= quarter && static_cast<double>(covered) >= kLeastCoverage * all) break;
    covered += n;
    ++taken;
  }
  if (taken >= vocab_size - kReserved)
    throw Failure(Exit::data, fmt::format("a vocabulary of {} has no room for the {} most frequent characters of this "
                                          "text in addition to 256 bytes. Write --vocab-size {} or more",
                                          vocab_size, taken, taken + kReserved + 1));
  return std::min(0.9995, static_cast<double>(covered) / all);
}

}  // namespace

void TextSample::add(std::string_view document) {
  while (!document.empty()) {
    std::size_t end = document.size();
    if (end > kPassageBytes) {
      const std::size_t line_end = document.substr(0, kPassageBytes).rfind('\n');
      end = line_end != std::string_view::npos ? line_end + 1 : utf8_floor(document, kPassageBytes);
    }
    const std::uint64_t number = passages_++;
    if (const std::uint64_t priority = XXH3_64bits_withSeed(&number, sizeof(number), seed_); priority <= limit_) {
      kept_.emplace_back(priority, document.substr(0, end));
      bytes_ += end;
      if (bytes_ > 2 * capacity_) shrink(capacity_);
    }
    document.remove_prefix(end);
  }
}

void TextSample::shrink(std::size_t bytes) {
  std::ranges::sort(kept_);
  while (bytes_ > bytes && kept_.size() > 1) {
    bytes_ -= kept_.back().second.size();
    limit_ = kept_.back().first;
    kept_.pop_back();
  }
}

std::vector<std::string> TextSample::take() {
  shrink(capacity_);
  std::vector<std::string> passages;
  for (auto& [priority, text] : kept_) passages.push_back(std::move(text));
  kept_.clear();
  return passages;
}

std::string train_tokenizer(std::vector<std::string> passages, std::int64_t vocab_size) {
  // sentencepiece reserves this character and drops every sentence that contains it. Text still encodes it by its
  // bytes.
  std::erase_if(passages, [](const std::string& text) { return text.find("\xe2\x96\x85") != std::string::npos; });
  if (passages.empty())
    throw Failure(Exit::data,
                  "sentencepiece cannot train on this text: each of its passages has the character U+2585, "
                  "which it reserves. Name a tokenizer with --tokenizer, or remove the character");
  const std::unordered_map<std::string, std::string> options = {
      {"model_type", "bpe"},
      {"vocab_size", fmt::to_string(vocab_size)},
      {"hard_vocab_limit", "false"},  // a small text may not have that many pieces
      {"character_coverage", fmt::format("{:.6f}", character_coverage(passages, vocab_size))},
      // No byte may be lost or moved: measured, the defaults drop every newline of source code.
      {"byte_fallback", "true"},
      {"normalization_rule_name", "identity"},
      {"remove_extra_whitespaces", "false"},
      {"add_dummy_prefix", "false"},
      {"allow_whitespace_only_pieces", "true"},
      {"split_by_unicode_script", "false"},  // measured on Python sources: 3.75 bytes per token, 3.40 with it
      {"unk_id", "0"},
      {"eos_id", "1"},
      {"bos_id", "-1"},
      {"pad_id", "-1"},
      {"max_sentence_length", fmt::to_string(2 * kPassageBytes)},
      {"input_sentence_size", "0"},  // the sample is already drawn
      {"num_threads", "2"},          // constant, because the model stores it
      {"minloglevel", "2"},
  };
  Passages iterator(passages);
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(options, &iterator, &model);
  if (!status.ok())
    throw Failure(Exit::data,
                  fmt::format("sentencepiece cannot train on {} passages: {}", passages.size(), status.message()));
  return model;
}

}  // namespace llmc::data
