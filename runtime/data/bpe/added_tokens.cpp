#include "data/bpe/added_tokens.h"

#include <algorithm>

#include "data/bpe/characters.h"

namespace llmc {
namespace {

/// Start of the white space at the end of text[from, end).
std::size_t strip_end(std::string_view text, std::size_t from, std::size_t end) {
  while (end > from) {
    std::size_t last = end - 1;
    while (last > from && (static_cast<unsigned char>(text[last]) & 0xc0) == 0x80) --last;
    if (class_of(first_character(text.substr(last)).point) != CharacterClass::space) break;
    end = last;
  }
  return end;
}

std::size_t strip_start(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    const Character next = first_character(text.substr(at));
    if (class_of(next.point) != CharacterClass::space) break;
    at += next.bytes;
  }
  return at;
}

}  // namespace

void AddedTokens::add(const std::string& content, const Token& token) {
  if (!tokens_.emplace(content, token).second) return;
  std::vector<std::size_t>& lengths = lengths_[static_cast<unsigned char>(content.front())];
  const auto place = std::ranges::lower_bound(lengths, content.size(), std::greater());
  if (place == lengths.end() || *place != content.size()) lengths.insert(place, content.size());
}

const std::pair<const std::string, AddedTokens::Token>* AddedTokens::at_start(std::string_view text) const {
  for (const std::size_t length : lengths_[static_cast<unsigned char>(text.front())])
    if (length <= text.size())
      if (const auto found = tokens_.find(text.substr(0, length)); found != tokens_.end()) return &*found;
  return nullptr;
}

void AddedTokens::split(std::string_view text,
                        const std::function<void(std::string_view, std::optional<std::int32_t>)>& visit) const {
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size() && !tokens_.empty();) {
    const auto* found = at_start(text.substr(at));
    if (!found) {
      ++at;
      continue;
    }
    const auto& [content, token] = *found;
    std::size_t start = at, stop = at + content.size();
    at = stop;
    if (token.as_text) continue;
    if (token.lstrip) start = strip_end(text, done, start);
    if (token.rstrip) stop = strip_start(text, stop);
    if (done < start) visit(text.substr(done, start - done), std::nullopt);
    visit(text.substr(start, stop - start), token.id);
    done = stop;  // the search continues at the end of the content: white space that it took may begin another token
  }
  if (done < text.size()) visit(text.substr(done), std::nullopt);
}

}  // namespace llmc
