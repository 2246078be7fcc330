#include "data/sentencepiece_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "data/tokenizer_model.h"
#include "error.h"
#include "text/utf8.h"

// Long text is encoded in segments, which bounds memory and is faster, because the library's merge queue is quicker on
// short text. The ids must be those of the whole text, and two kinds of cut keep them:
//
// 1. Before a run of blanks, if no piece has a blank after another character. No merge crosses it, and merges on one
//    side do not see the other.
// 2. Between two tokens, if the text of the last token before the cut and of the first one after it, encoded together,
//    give these two tokens again. Suppose that a merge crosses the cut in the whole text, and take the first such
//    merge. Before it, the text of the two tokens was merged as if nothing stood around it: no earlier merge crosses
//    the cut, and none crosses the outer ends of the tokens. The library always takes the best pair that is left, the
//    leftmost one of equals, so the text of the two tokens alone passes through the same states and reaches the same
//    merge.

namespace llmc {

namespace {

constexpr std::size_t kSegmentBytes = 1024;
constexpr std::size_t kMaxUtf8Bytes = 4;
constexpr std::string_view kSpaceMark = "\xe2\x96\x81";    // U+2581
constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

/// Length of the prefix of `text` that sentencepiece leaves unchanged.
std::size_t plain_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::string_view rest = text.substr(at);
    const std::size_t length = utf8_length(rest);
    if (length == 0 || rest.front() == '\0' || rest.starts_with(kSpaceMark)) break;
    at += length;
  }
  return at;
}

std::string without_marks(std::string_view piece) {
  std::string text;
  for (std::size_t at = 0; at < piece.size();) {
    const bool mark = piece.substr(at).starts_with(kSpaceMark);
    text += mark ? ' ' : piece[at];
    at += mark ? kSpaceMark.size() : 1;
  }
  return text;
}

bool has_blank_after_other(std::string_view text) { return text.find(' ', text.find_first_not_of(' ')) != text.npos; }

}  // namespace

SentencePieceEncoder::SentencePieceEncoder(std::string_view model, const std::string& name) {
  const TokenizerModel about = check_tokenizer_model(model, name);
  const auto status = processor_.LoadFromSerializedProto(absl::string_view(model.data(), model.size()));
  if (!status.ok())
    throw Failure(Exit::data, fmt::format("'{}': sentencepiece rejects it: {}", name, status.message()));
  byte_piece_.fill(processor_.unk_id());
  bytes_of_.resize(static_cast<std::size_t>(processor_.GetPieceSize()));
  for (int id = 0; id < processor_.GetPieceSize(); ++id) {
    unsigned value = 0;
    if (!processor_.IsByte(id)) continue;
    if (std::sscanf(processor_.IdToPiece(id).c_str(), "<0x%2X>", &value) != 1)
      throw Failure(Exit::data, fmt::format("'{}': its byte piece {} names no byte", name, id));
    bytes_of_[static_cast<std::size_t>(id)] = static_cast<char>(value);
    byte_piece_[value] = id;
  }
  read_pieces();
  const bool all_bytes = std::ranges::find(byte_piece_, processor_.unk_id()) == byte_piece_.end();
  exact_ = all_bytes && about.byte_fallback && !about.add_dummy_prefix && !about.remove_extra_whitespaces &&
           about.escape_whitespaces;
}

void SentencePieceEncoder::read_pieces() {
  std::size_t longest = 0;
  for (int id = 0; id < processor_.GetPieceSize(); ++id) {
    std::string& text = bytes_of_[static_cast<std::size_t>(id)];
    if (processor_.IsUnknown(id)) {
      text = kReplacement;
    } else if (!processor_.IsByte(id) && !processor_.IsControl(id)) {
      text = without_marks(processor_.IdToPiece(id));
      longest = std::max(longest, text.size());
      blank_starts_piece_ = blank_starts_piece_ && !has_blank_after_other(text);
      // The library splits an unused piece as it was merged last, anywhere in the text.
      cuts_ = cuts_ && !processor_.IsUnused(id);
    }
  }
  window_bytes_ = std::max(kSegmentBytes, 4 * (longest + kMaxUtf8Bytes));
}

void SentencePieceEncoder::encode(std::string_view text, std::vector<std::int32_t>& ids) const {
  // Without exact_, each call would add a prefix or drop spaces at the ends, so there must be only one.
  if (!exact_) return append(text, ids);
  while (!text.empty()) {
    const std::size_t plain = plain_prefix(text);
    encode_plain(text.substr(0, plain), ids);
    text.remove_prefix(plain);
    if (text.empty()) break;
    const std::size_t odd = std::max<std::size_t>(utf8_length(text), 1);
    append_bytes(text.substr(0, odd), ids);
    text.remove_prefix(odd);
  }
}

void SentencePieceEncoder::encode_plain(std::string_view text, std::vector<std::int32_t>& ids) const {
  std::string_view from = text;  // from the last cut of the first kind
  std::size_t ids_before = ids.size();
  Window now = window(text);
  while (!text.empty()) {
    if (now.whole) {
      ids.insert(ids.end(), now.ids.begin(), now.ids.end());
      text.remove_prefix(now.text.size());
      from = text;
      ids_before = ids.size();
      now = window(text);
      continue;
    }
    bool found = false;
    for (const Cut& cut : cuts(now)) {
      Window next = window(text.substr(cut.bytes));
      if (!separate(now, cut, next)) continue;
      ids.insert(ids.end(), now.ids.begin(), now.ids.begin() + static_cast<std::ptrdiff_t>(cut.ids));
      text.remove_prefix(cut.bytes);
      now = std::move(next);
      found = true;
      break;
    }
    if (found) continue;
    ids.resize(ids_before);
    return append(from, ids);
  }
}

/// Length of the next segment that ends with the text or in a cut of the first kind; 0 if there is none within reach.
std::size_t SentencePieceEncoder::blank_end(std::string_view text) const {
  if (text.size() <= kSegmentBytes || !cuts_) return text.size();
  if (!blank_starts_piece_) return 0;
  for (std::size_t at = kSegmentBytes; at > kSegmentBytes / 2; --at)
    if (text[at] == ' ' && text[at - 1] != ' ') return at;
  return 0;
}

SentencePieceEncoder::Window SentencePieceEncoder::window(std::string_view text) const {
  const std::size_t blank = blank_end(text), end = blank > 0 ? blank : utf8_floor(text, window_bytes_);
  Window made{text.substr(0, end), blank > 0 || end == text.size(), {}};
  append(made.text, made.ids);
  return made;
}

/// Size of the first token of `text`, which is spelled by `ids`. The bytes of a character without a piece are one
/// token.
SentencePieceEncoder::Symbol SentencePieceEncoder::symbol(std::string_view text,
                                                          std::span<const std::int32_t> ids) const {
  const auto bytes = [&](std::size_t i) { return bytes_of_[static_cast<std::size_t>(ids[i])].size(); };
  Symbol symbol{bytes(0), 1};
  if (!processor_.IsByte(ids[0])) return symbol;
  for (const std::size_t character = utf8_length(text); symbol.bytes < character && processor_.IsByte(ids[symbol.ids]);)
    symbol.bytes += bytes(symbol.ids++);
  return symbol;
}

/// Ends of the tokens in the third quarter of a window, the last one first. The last quarter is longer than any piece,
/// so that a user-defined piece, which is taken before any merge, cannot cross a cut.
std::vector<SentencePieceEncoder::Cut> SentencePieceEncoder::cuts(const Window& window) const {
  std::vector<Cut> found;
  Cut cut{};
  while (cut.bytes <= window_bytes_ / 4 * 3) {
    cut.last = symbol(window.text.substr(cut.bytes), std::span(window.ids).subspan(cut.ids));
    cut.bytes += cut.last.bytes;
    cut.ids += cut.last.ids;
    if (cut.bytes > window_bytes_ / 2) found.push_back(cut);
  }
  found.pop_back();
  std::ranges::reverse(found);
  return found;
}

/// Returns whether a cut of `left` keeps the ids, if `right` follows it.
bool SentencePieceEncoder::separate(const Window& left, const Cut& cut, const Window& right) const {
  const Symbol first = symbol(right.text, right.ids);
  std::vector<std::int32_t> apart(left.ids.begin() + static_cast<std::ptrdiff_t>(cut.ids - cut.last.ids),
                                  left.ids.begin() + static_cast<std::ptrdiff_t>(cut.ids));
  apart.insert(apart.end(), right.ids.begin(), right.ids.begin() + static_cast<std::ptrdiff_t>(first.ids));
  std::vector<std::int32_t> together;
  append(std::string_view(right.text.data() - cut.last.bytes, cut.last.bytes + first.bytes), together);
  return together == apart;
}

void SentencePieceEncoder::append(std::string_view text, std::vector<std::int32_t>& ids) const {
  std::vector<int> tokens;
  const auto status = processor_.Encode(absl::string_view(text.data(), text.size()), &tokens);
  if (exact_ && (!status.ok() || !spells(tokens, text))) {
    append_bytes(text, ids);
  } else if (status.ok()) {
    ids.insert(ids.end(), tokens.begin(), tokens.end());
  } else {
    throw Failure(Exit::data, fmt::format("sentencepiece cannot encode: {}", status.message()));
  }
}

void SentencePieceEncoder::append_bytes(std::string_view text, std::vector<std::int32_t>& ids) const {
  for (const char byte : text) ids.push_back(byte_piece_[static_cast<unsigned char>(byte)]);
}

/// An untrusted model may mark a letter as a control token or a byte, so only a verified round trip counts.
bool SentencePieceEncoder::spells(const std::vector<int>& tokens, std::string_view text) const {
  for (const int id : tokens) {
    const std::string& bytes = bytes_of_[static_cast<std::size_t>(id)];
    if (!text.starts_with(bytes)) return false;
    text.remove_prefix(bytes.size());
  }
  return text.empty();
}

}  // namespace llmc
