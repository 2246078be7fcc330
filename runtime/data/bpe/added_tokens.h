// Added tokens of a tokenizer.json, which are found in a text before it is split into words.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace llmc {

class AddedTokens {
 public:
  struct Token {
    std::int32_t id;
    bool as_text;         // is encoded like other text where it is found
    bool lstrip, rstrip;  // takes the white space to its left or right
  };

  /// Adds a token; of equal contents, which must not be empty, the first counts.
  void add(const std::string& content, const Token& token);
  bool empty() const { return tokens_.empty(); }

  /// Visits the parts of a text in order: tokens with their ids, and what is between them. Of tokens that start at one
  /// character the longest is found, as in the package `tokenizers`; a token that counts as text hides those within it.
  /// White space that a token took to its right also belongs to a token that starts in it.
  void split(std::string_view text,
             const std::function<void(std::string_view part, std::optional<std::int32_t> id)>& visit) const;

 private:
  const std::pair<const std::string, Token>* at_start(std::string_view text) const;

  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::unordered_map<std::string, Token, Hash, std::equal_to<>> tokens_;
  std::array<std::vector<std::size_t>, 256> lengths_;  // by first byte, the longest first
};

}  // namespace llmc
