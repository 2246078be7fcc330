#include "data/bpe/words.h"

#include <algorithm>
#include <array>

#include "data/bpe/characters.h"

namespace llmc {
namespace {

using enum CharacterClass;

constexpr std::string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDigits3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDigits1 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::array<std::string_view, 7> kContractions = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
constexpr std::string_view kLongS = "\xc5\xbf";  // U+017F, whose upper case is S

struct Typed {
  CharacterClass type;
  std::size_t bytes;
};
Typed first(std::string_view text) {
  const Character character = first_character(text);
  return {class_of(character.point), character.bytes};
}

/// Bytes of the longest prefix of characters of one class, at most `most` characters.
std::size_t run(std::string_view text, CharacterClass type, std::size_t most = ~std::size_t{0}) {
  std::size_t at = 0;
  for (; at < text.size() && most > 0; --most) {
    const Typed next = first(text.substr(at));
    if (next.type != type) break;
    at += next.bytes;
  }
  return at;
}

/// Bytes of a contraction such as 'll at the start; 0 without one.
std::size_t contraction(std::string_view text, bool any_case) {
  if (text.front() != '\'') return 0;
  for (const std::string_view word : kContractions)
    if (text.size() >= word.size() && std::ranges::equal(word, text.substr(0, word.size()), [&](char a, char b) {
          return a == b || (any_case && b >= 'A' && b <= 'Z' && a == b - 'A' + 'a');
        }))
      return word.size();
  return any_case && text.substr(1).starts_with(kLongS) ? 1 + kLongS.size() : 0;
}

/// Bytes of \s+(?!\S)|\s+ for a run of spaces: without the last one, if a word follows and it is not the only one.
std::size_t spaces(std::string_view text) {
  const std::size_t all = run(text, space);
  if (all == text.size()) return all;
  std::size_t last = all - 1;
  while ((static_cast<unsigned char>(text[last]) & 0xc0) == 0x80) --last;
  return last > 0 ? last : all;
}

std::size_t gpt2_word(std::string_view text) {
  if (const std::size_t bytes = contraction(text, false)) return bytes;
  const std::size_t blank = text.front() == ' ' ? 1 : 0;
  const std::string_view rest = text.substr(blank);
  if (!rest.empty())
    if (const CharacterClass type = first(rest).type; type != space) return blank + run(rest, type);
  return spaces(text);
}

bool is_line_end(char byte) { return byte == '\r' || byte == '\n'; }

std::size_t cl100k_word(std::string_view text, std::size_t digits) {
  if (const std::size_t bytes = contraction(text, true)) return bytes;
  const Typed start = first(text);
  if (start.type == letter) return run(text, letter);
  if (start.type == number) return run(text, number, digits);
  if (!is_line_end(text.front()))
    if (const std::size_t letters = run(text.substr(start.bytes), letter)) return start.bytes + letters;
  const std::size_t blank = text.front() == ' ' ? 1 : 0;
  if (const std::size_t others = run(text.substr(blank), other)) {
    std::size_t end = blank + others;
    while (end < text.size() && is_line_end(text[end])) ++end;
    return end;
  }
  std::size_t line_end = run(text, space);
  while (line_end > 0 && !is_line_end(text[line_end - 1])) --line_end;
  return line_end > 0 ? line_end : spaces(text);
}

}  // namespace

std::optional<WordRule> word_rule(std::string_view expression) {
  if (expression == kGpt2) return WordRule::gpt2;
  if (expression == kDigits3) return WordRule::digits3;
  if (expression == kDigits1) return WordRule::digits1;
  return std::nullopt;
}

std::size_t word_length(std::string_view text, WordRule rule) {
  switch (rule) {
    case WordRule::gpt2: return gpt2_word(text);
    case WordRule::digits3: return cl100k_word(text, 3);
    case WordRule::digits1: return cl100k_word(text, 1);
    case WordRule::whole: break;
  }
  return text.size();
}

}  // namespace llmc
