// Encodes text with the BPE model of a Hugging Face tokenizer.json, to the ids of the package `tokenizers`.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/bpe/added_tokens.h"
#include "data/bpe/merges.h"
#include "data/bpe/normalizer.h"
#include "data/bpe/pre_tokenizer.h"
#include "data/bpe/tokenizer_file.h"

namespace llmc {

/// Thread-safe after construction.
class BpeEncoder {
 public:
  /// `bytes_of` has the decoded bytes of each token. Returns null, with the reason in `problem`, if the file needs
  /// something that is not supported, or has no token for a byte.
  static std::unique_ptr<const BpeEncoder> make(const TokenizerFile& file, const std::vector<std::string>& bytes_of,
                                                std::string& problem);

  /// Appends the ids of a text. Its special tokens are encoded like other text (the package's encode_special_tokens,
  /// and no merge gives one), so that no document can contain the token that ends one; other added tokens are found as
  /// the file says. Nothing is added at the ends. Bytes that are not UTF-8 become a token each, and text on both sides
  /// is encoded on its own.
  void encode(std::string_view text, std::vector<std::int32_t>& ids) const;
  /// Returns whether decoding restores any text.
  bool exact() const { return exact_; }

 private:
  /// Ids of recently encoded words, by a hash: equal words are most of a text. A later word replaces an earlier one.
  struct WordCache {
    struct Slot {
      std::string word;
      std::vector<std::int32_t> ids;
    };
    std::vector<Slot> slots;
    MergeTable::Scratch scratch;
    std::vector<std::int32_t> symbols;
  };
  struct Job {
    WordCache& cache;
    std::vector<std::int32_t>& ids;
  };

  explicit BpeEncoder(std::size_t merges) : merges_(merges) {}
  void encode_valid(std::string_view text, bool first, Job& job) const;
  void encode_piece(std::string_view text, bool first, Job& job) const;
  void encode_marked(std::string_view text, Job& job) const;
  void encode_word(std::string_view word, Job& job) const;
  void merge_word(std::string_view word, WordCache& cache) const;
  std::string read_model(const TokenizerFile& file);
  std::string read_vocabulary(const TokenizerFile& file, const std::vector<std::string>& bytes_of);

  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  AddedTokens raw_added_, normalised_added_;
  MergeTable merges_;
  std::array<std::int32_t, 256> byte_ids_;
  std::unordered_map<char32_t, std::int32_t> character_ids_;                          // of a model on characters
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> whole_words_;  // of a model with ignore_merges
  bool ignore_merges_ = false, cut_at_marks_ = false, exact_ = false;

  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<WordCache>> idle_;  // one for each thread that encodes at a time
};

}  // namespace llmc
