#include "data/bpe/encoder.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>

#include "data/bpe/byte_characters.h"
#include "data/bpe/characters.h"
#include "text/printable.h"
#include "text/utf8.h"

namespace llmc {
namespace {

constexpr std::size_t kCachedWords = 1 << 16, kCachedBytes = 64;
constexpr std::string_view kMark = "\xe2\x96\x81";  // U+2581, which stands for a blank in models on characters

/// Bytes of the longest prefix that is valid UTF-8.
std::size_t valid_prefix(std::string_view text) {
  std::size_t at = 0;
  while (const std::size_t length = utf8_length(text.substr(at))) at += length;
  return at;
}

/// Whether a mark follows another character, so that a merge crosses the start of a word.
bool crosses_word(std::string_view token) {
  for (std::size_t at = token.find(kMark, 1); at != std::string_view::npos; at = token.find(kMark, at + 1))
    if (!token.substr(0, at).ends_with(kMark)) return true;
  return false;
}

}  // namespace

std::unique_ptr<const BpeEncoder> BpeEncoder::make(const TokenizerFile& file, const std::vector<std::string>& bytes_of,
                                                   std::string& problem) {
  std::unique_ptr<BpeEncoder> encoder(new BpeEncoder(file.merges.size()));
  problem = encoder->normalizer_.add(file.normalizer);
  if (problem.empty()) problem = read_pre_tokenizer(file.pre_tokenizer, encoder->normalizer_, encoder->pre_tokenizer_);
  if (problem.empty()) problem = encoder->read_model(file);
  if (problem.empty()) problem = encoder->read_vocabulary(file, bytes_of);
  if (!problem.empty()) return nullptr;
  return encoder;
}

std::string BpeEncoder::read_model(const TokenizerFile& file) {
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!text_at(file.model, key).empty()) return fmt::format("llmc does not support its model's {}", key);
  if (const auto dropout = file.model.find("dropout");
      dropout != file.model.end() && !dropout->is_null() && *dropout != 0)
    return "its model drops merges at random (dropout)";
  if (!pre_tokenizer_.byte_level && !flag_at(file.model, "byte_fallback", false))
    return "it has neither a ByteLevel pre-tokenizer nor byte_fallback, so that characters without a token are lost";
  if (file.odd_merges) return "one of its model.merges is no pair of tokens";
  ignore_merges_ = flag_at(file.model, "ignore_merges", false);
  return "";
}

std::string BpeEncoder::read_vocabulary(const TokenizerFile& file, const std::vector<std::string>& bytes_of) {
  std::unordered_map<std::string_view, std::int32_t> ids;
  for (const auto& [token, id] : file.vocabulary) ids.emplace(token, static_cast<std::int32_t>(id));
  std::vector<bool> special(bytes_of.size());
  exact_ = pre_tokenizer_.byte_level && !normalizer_.changes_text() && !pre_tokenizer_.prefix_space;
  for (const AddedToken& token : file.added) {
    const auto id = static_cast<std::int32_t>(token.id);
    special[static_cast<std::size_t>(id)] = token.special;
    if (const auto of_model = ids.find(token.content); of_model != ids.end() && of_model->second != id)
      return fmt::format("the token '{}' has the id {} in added_tokens and {} in model.vocab", printable(token.content),
                         id, of_model->second);
    if (token.single_word && !token.special)
      return fmt::format("llmc does not support its added token '{}', which matches only whole words (single_word)",
                         printable(token.content));
    const AddedTokens::Token found = {id, token.special, token.lstrip, token.rstrip};
    const std::string content = token.normalized ? normalizer_.apply(token.content) : token.content;
    if (content.empty())  // would be found everywhere
      return fmt::format("its added token '{}' (id {}) is empty after normalisation", printable(token.content), id);
    (token.normalized ? normalised_added_ : raw_added_).add(content, found);
    exact_ &=
        token.special || (!token.lstrip && !token.rstrip && bytes_of[static_cast<std::size_t>(id)] == token.content);
  }
  for (int byte = 0; byte < 256; ++byte) {
    const std::string name = pre_tokenizer_.byte_level ? character_of_byte(static_cast<unsigned char>(byte))
                                                       : fmt::format("<0x{:02X}>", byte);
    const auto found = ids.find(name);
    if (found == ids.end()) return fmt::format("it has no token for the byte 0x{:02X}", byte);
    byte_ids_[static_cast<std::size_t>(byte)] = found->second;
    exact_ &= bytes_of[static_cast<std::size_t>(found->second)] == std::string(1, static_cast<char>(byte));
  }
  cut_at_marks_ = !pre_tokenizer_.byte_level && !ignore_merges_;
  std::string merged;
  for (std::size_t rank = 0; rank < file.merges.size(); ++rank) {
    const auto& [left, right] = file.merges[rank];
    merged = left + right;
    const auto a = ids.find(left), b = ids.find(right), both = ids.find(merged);
    if (a == ids.end() || b == ids.end() || both == ids.end())
      return fmt::format("its merge of '{}' and '{}' is not of tokens into a token", printable(left), printable(right));
    if (special[static_cast<std::size_t>(both->second)]) continue;
    merges_.set(a->second, b->second, static_cast<std::int32_t>(rank), both->second);
    if (cut_at_marks_) cut_at_marks_ = !crosses_word(merged);
  }
  for (const auto& [token, id] : file.vocabulary) {
    if (!pre_tokenizer_.byte_level && !special[static_cast<std::size_t>(id)] && !token.empty() &&
        utf8_length(token) == token.size())
      character_ids_.emplace(first_character(token).point, static_cast<std::int32_t>(id));
    if (!ignore_merges_ || special[static_cast<std::size_t>(id)]) continue;
    if (const auto word = pre_tokenizer_.byte_level ? bytes_of_characters(token) : std::optional(token))
      whole_words_.emplace(*word, static_cast<std::int32_t>(id));
  }
  return "";
}

void BpeEncoder::encode(std::string_view text, std::vector<std::int32_t>& ids) const {
  std::unique_ptr<WordCache> cache;
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      cache = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (!cache) {
    cache = std::make_unique<WordCache>();
    cache->slots.resize(kCachedWords);
  }
  Job job{*cache, ids};
  for (bool first = true; !text.empty(); first = false) {
    const std::size_t valid = valid_prefix(text);
    if (valid > 0) encode_valid(text.substr(0, valid), first, job);
    text.remove_prefix(valid);
    if (text.empty()) break;
    ids.push_back(byte_ids_[static_cast<unsigned char>(text.front())]);
    text.remove_prefix(1);
  }
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(cache));
}

void BpeEncoder::encode_valid(std::string_view text, bool first, Job& job) const {
  raw_added_.split(text, [&](std::string_view part, std::optional<std::int32_t> id) {
    if (id) return job.ids.push_back(*id);
    const bool begins = first && part.data() == text.data();
    const std::string changed = normalizer_.changes_text() ? normalizer_.apply(part) : "";
    const std::string_view normal = normalizer_.changes_text() ? std::string_view(changed) : part;
    normalised_added_.split(normal, [&](std::string_view piece, std::optional<std::int32_t> found) {
      if (found) return job.ids.push_back(*found);
      encode_piece(piece, begins && piece.data() == normal.data(), job);
    });
  });
}

void BpeEncoder::encode_piece(std::string_view text, bool first, Job& job) const {
  if (pre_tokenizer_.byte_level) {
    std::string prefixed;
    if (pre_tokenizer_.prefix_space && text.front() != ' ') text = prefixed.append(" ").append(text);
    while (!text.empty()) {
      const std::size_t length = word_length(text, pre_tokenizer_.rule);
      encode_word(text.substr(0, length), job);
      text.remove_prefix(length);
    }
  } else if (!pre_tokenizer_.mark.empty()) {
    std::string marked = replace_each(text, " ", pre_tokenizer_.mark);
    const bool prefix = pre_tokenizer_.prefix_mark == PreTokenizer::Prefix::always ||
                        (pre_tokenizer_.prefix_mark == PreTokenizer::Prefix::first && first);
    if (prefix && !marked.starts_with(pre_tokenizer_.mark)) marked.insert(0, pre_tokenizer_.mark);
    encode_marked(marked, job);
  } else {
    encode_marked(text, job);
  }
}

/// Encodes text whose blanks are marks. Without a pre-tokenizer it is one word, but where no merge crosses the start of
/// a run of marks, the words there give the same tokens, and equal words are cached.
void BpeEncoder::encode_marked(std::string_view text, Job& job) const {
  const std::string_view mark = pre_tokenizer_.split_at_marks ? std::string_view(pre_tokenizer_.mark) : kMark;
  if (!pre_tokenizer_.split_at_marks && !cut_at_marks_) return encode_word(text, job);
  for (std::size_t start = 0, at = 0; start < text.size();) {
    at = text.find(mark, at + 1);
    if (at == std::string_view::npos) at = text.size();
    const bool in_run = !pre_tokenizer_.split_at_marks && at < text.size() && text.substr(0, at).ends_with(mark);
    if (in_run) continue;
    encode_word(text.substr(start, at - start), job);
    start = at;
  }
}

void BpeEncoder::encode_word(std::string_view word, Job& job) const {
  if (word.size() > kCachedBytes) {
    merge_word(word, job.cache);
    job.ids.insert(job.ids.end(), job.cache.symbols.begin(), job.cache.symbols.end());
    return;
  }
  WordCache::Slot& slot = job.cache.slots[XXH3_64bits(word.data(), word.size()) % kCachedWords];
  if (slot.word != word) {
    merge_word(word, job.cache);
    slot.word = word;
    slot.ids = job.cache.symbols;
  }
  job.ids.insert(job.ids.end(), slot.ids.begin(), slot.ids.end());
}

void BpeEncoder::merge_word(std::string_view word, WordCache& cache) const {
  cache.symbols.clear();
  if (ignore_merges_)
    if (const auto whole = whole_words_.find(word); whole != whole_words_.end())
      return cache.symbols.push_back(whole->second);
  if (pre_tokenizer_.byte_level) {
    for (const char byte : word) cache.symbols.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
  } else {
    while (!word.empty()) {
      const Character character = first_character(word);
      if (const auto known = character_ids_.find(character.point); known != character_ids_.end())
        cache.symbols.push_back(known->second);
      else
        for (const char byte : word.substr(0, character.bytes))
          cache.symbols.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
      word.remove_prefix(character.bytes);
    }
  }
  merges_.apply(cache.symbols, cache.scratch);
}

}  // namespace llmc
