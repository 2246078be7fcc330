// Trains the BPE tokenizer of a data set from a bounded sample of its text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace llmc::data {

/// Keeps a uniform sample of short passages within `capacity` bytes (twice that while collecting). Every passage gets a
/// random priority that depends on (seed, its number) only, and the smallest priorities stay.
class TextSample {
 public:
  TextSample(std::size_t capacity, std::uint64_t seed) : capacity_(capacity), seed_(seed) {}
  /// Cuts a document at line ends into passages of at most 4096 bytes: sentencepiece drops longer sentences, and cannot
  /// index words of 65,536 characters.
  void add(std::string_view document);
  /// Returns the passages, at most `capacity` bytes of them, ordered by priority.
  std::vector<std::string> take();

 private:
  void shrink(std::size_t bytes);

  std::size_t capacity_, bytes_ = 0;
  std::uint64_t seed_, passages_ = 0, limit_ = ~std::uint64_t{0};
  std::vector<std::pair<std::uint64_t, std::string>> kept_;
};

/// Trains a BPE model with byte fallback that loses no byte, and serialises it for sentencepiece. Token 0 is unknown
/// (never produced), token 1 ends a document. Small samples give fewer than `vocab_size` tokens. Throws
/// Failure(Exit::data) if sentencepiece refuses; vocab_size is at least kMinVocabSize.
std::string train_tokenizer(std::vector<std::string> passages, std::int64_t vocab_size);

constexpr std::int64_t kMinVocabSize = 320;        // 256 bytes, two reserved tokens, and some room
constexpr std::int64_t kMaxVocabSize = 1'000'000;  // below the limit of the tokenizer reader (2^20)

}  // namespace llmc::data
