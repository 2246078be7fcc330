// Encodes text and decodes token ids with a sentencepiece BPE model or a Hugging Face tokenizer.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace llmc {

/// Throws Failure(data) for a tokenizer `name` of more than 64 MiB.
void check_tokenizer_size(std::size_t bytes, const std::string& name);

/// Thread-safe after construction.
class Tokenizer {
 public:
  /// Reads a .model file or a tokenizer.json of at most 64 MiB. Throws Failure(data) if it cannot be used safely.
  explicit Tokenizer(const std::filesystem::path& file);
  /// `model` is a serialised ModelProto or the text of a tokenizer.json; `name` is its name in errors. `path`: of the
  /// file or its folder, whose other files may name the separator of a tokenizer.json; empty: none do. Throws
  /// Failure(data).
  Tokenizer(std::string_view model, const std::string& name, const std::filesystem::path& path = {});
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;

  /// Returns whether it can encode. A tokenizer.json with an unsupported normalizer, pre-tokenizer or option only
  /// decodes.
  bool encodes() const;
  /// Reason why it does not encode, as a sentence without its end; empty if it does.
  const std::string& why_not_encodes() const;
  /// Returns whether it was read from a tokenizer.json.
  bool is_json() const;
  std::int32_t vocab_size() const;
  /// One more than the largest id that data can have (tokenizer_json.h); of a sentencepiece model vocab_size().
  std::int32_t tokens_of_data() const;
  /// Token that ends a document (the model's eos, else its bos; of a tokenizer.json see tokenizer_json.h), -1 if
  /// unknown.
  std::int32_t separator_id() const;
  /// Token of a sentencepiece model that encode() gives for text without another; -1 of a tokenizer.json.
  std::int32_t unknown_id() const;
  /// Name of a token in the model, such as "</s>".
  std::string piece(std::int32_t id) const;
  /// Returns whether decode(encode(x)) == x for any bytes x: byte pieces, no dummy prefix, no whitespace removal; of a
  /// tokenizer.json byte-level tokens without a normalizer.
  bool exact() const;

  /// Encodes text; adds no token at either end. Throws Failure(data) unless encodes(). Bytes that sentencepiece would
  /// change (invalid UTF-8, NUL, and its space marker U+2581) become byte pieces, or the unknown token in a model
  /// without byte pieces. A tokenizer.json gives the ids of the package `tokenizers` (bpe/encoder.h).
  std::vector<std::int32_t> encode(std::string_view text) const;
  /// Bytes of the tokens; they need not be valid UTF-8, because byte pieces are copied. Control tokens such as the
  /// separator give nothing, the unknown token U+FFFD. Ids outside the vocabulary throw Failure(data).
  std::string decode(std::span<const std::int32_t> ids) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace llmc
