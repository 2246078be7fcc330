// Encodes text with a sentencepiece BPE model, to the ids of the library.
#pragma once

#include <sentencepiece_processor.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace llmc {

/// Thread-safe after construction.
class SentencePieceEncoder {
 public:
  /// `model` is a serialised ModelProto, `name` its name in errors. Throws Failure(data) if it cannot be used safely.
  SentencePieceEncoder(std::string_view model, const std::string& name);

  /// Appends the ids of a text. Of a model that is exact(), bytes that the library would change (invalid UTF-8, NUL,
  /// and its space marker U+2581) become byte pieces; text on both sides is encoded on its own.
  void encode(std::string_view text, std::vector<std::int32_t>& ids) const;
  /// Returns whether decoding restores any text.
  bool exact() const { return exact_; }
  /// [vocab_size]: decoded bytes of each token.
  const std::vector<std::string>& bytes_of() const { return bytes_of_; }
  const sentencepiece::SentencePieceProcessor& processor() const { return processor_; }

 private:
  /// Sizes of a token, or of a character that has no piece.
  struct Symbol {
    std::size_t bytes, ids;
  };
  /// A position in a window, and the symbol before it.
  struct Cut {
    std::size_t bytes, ids;
    Symbol last;
  };
  /// The start of a text and its tokens.
  struct Window {
    std::string_view text;
    bool whole;  // no piece crosses its end
    std::vector<std::int32_t> ids;
  };

  void read_pieces();
  std::size_t blank_end(std::string_view text) const;
  Window window(std::string_view text) const;
  Symbol symbol(std::string_view text, std::span<const std::int32_t> ids) const;
  std::vector<Cut> cuts(const Window& window) const;
  bool separate(const Window& left, const Cut& cut, const Window& right) const;
  void encode_plain(std::string_view text, std::vector<std::int32_t>& ids) const;
  void append(std::string_view text, std::vector<std::int32_t>& ids) const;
  void append_bytes(std::string_view text, std::vector<std::int32_t>& ids) const;
  bool spells(const std::vector<int>& tokens, std::string_view text) const;

  sentencepiece::SentencePieceProcessor processor_;
  std::vector<std::string> bytes_of_;
  std::array<std::int32_t, 256> byte_piece_;  // token of each byte, or the unknown token
  std::size_t window_bytes_ = 0;              // at least four times the longest piece
  bool exact_ = false, cuts_ = true, blank_starts_piece_ = true;
};

}  // namespace llmc
