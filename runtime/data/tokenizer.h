// Token ids to text, over a sentencepiece BPE model or a Hugging Face tokenizer.json, and by the first text to token
// ids without losing a byte.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace llmc {

/// Thread-safe after construction.
class Tokenizer {
 public:
  /// Reads a .model file or a tokenizer.json, of at most 64 MiB. Throws Failure(Exit::data) when it is not one that can
  /// be used safely.
  explicit Tokenizer(const std::filesystem::path& file);
  /// `model` is a serialised ModelProto or a tokenizer.json's text; `name` is what errors call it. Throws alike.
  Tokenizer(std::string_view model, const std::string& name);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;

  /// Whether it can encode, as sentencepiece models do. A tokenizer.json is decoded by alone: its text would have to be
  /// cut by a regular expression and normalised exactly as Hugging Face's library does.
  bool encodes() const;
  std::int32_t vocab_size() const;
  /// The token that ends a document (the model's eos, else its bos; see tokenizer_json.h), -1 when none is known.
  std::int32_t separator_id() const;
  /// What encode() gives where nothing stands for a text; -1 where it does not encode.
  std::int32_t unknown_id() const;
  /// What the model calls a token of the vocabulary: "</s>".
  std::string piece(std::int32_t id) const;
  /// True when decode(encode(x)) == x for any bytes x: byte pieces, no dummy prefix, no whitespace removal.
  bool exact() const;

  /// Throws Failure(Exit::data) unless encodes(). No token is added at either end. What sentencepiece would change
  /// (invalid UTF-8, NUL, and U+2581, its own stand-in for a space) goes through byte pieces. A model without byte
  /// pieces gives its unknown token there.
  std::vector<std::int32_t> encode(std::string_view text) const;
  /// The bytes of the tokens, which need not be valid UTF-8: byte pieces come out as they are. Control tokens (the
  /// separator) give nothing, the unknown token U+FFFD, ids outside the vocabulary throw Failure(Exit::data).
  std::string decode(std::span<const std::int32_t> ids) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace llmc
