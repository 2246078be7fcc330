#include "data/tokenizer.h"

#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include <algorithm>
#include <array>
#include <optional>

#include "data/bpe/encoder.h"
#include "data/mapped_file.h"
#include "data/tokenizer_json.h"
#include "data/tokenizer_model.h"
#include "error.h"
#include "text/utf8.h"

namespace llmc {

namespace {

constexpr std::size_t kMaxModelBytes = 64 << 20;
/// Encoding in segments of this size bounds memory and is faster, because sentencepiece's merge queue is quicker on
/// short text.
constexpr std::size_t kSegmentBytes = 1024;
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

/// End of the next segment, chosen such that the tokens equal those of the whole text: no piece crosses the start of a
/// run of spaces. Without such a boundary within reach, the text is cut between any two characters.
std::size_t segment_end(std::string_view text) {
  if (text.size() <= kSegmentBytes) return text.size();
  for (std::size_t at = kSegmentBytes; at > kSegmentBytes / 2; --at)
    if (text[at] == ' ' && text[at - 1] != ' ') return at;
  return utf8_floor(text, kSegmentBytes);
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

}  // namespace

void check_tokenizer_size(std::size_t bytes, const std::string& name) {
  if (bytes > kMaxModelBytes)
    throw Failure(Exit::data,
                  fmt::format("'{}': has {} bytes, but a tokenizer may have at most {}", name, bytes, kMaxModelBytes));
}

struct Tokenizer::State {
  std::optional<JsonVocabulary> json;  // if set, of the members from `about` on only bytes_of and exact are filled
  std::unique_ptr<const BpeEncoder> encoder;  // of a tokenizer.json
  std::string why_not_encodes;
  TokenizerModel about;
  sentencepiece::SentencePieceProcessor processor;
  std::vector<std::string> bytes_of;         // [vocab_size]: decoded bytes of each token
  std::array<std::int32_t, 256> byte_piece;  // token of each byte, or the unknown token
  bool exact = false;

  State(std::string_view model, const std::string& name, const std::filesystem::path& path) {
    check_tokenizer_size(model.size(), name);
    if (looks_like_json(model)) {
      const TokenizerFile file = read_tokenizer_file(model, name);
      json = vocabulary_of(file, name, path.empty() ? NamedSeparator{} : separator_next_to(path));
      bytes_of = std::move(json->bytes_of);
      encoder = BpeEncoder::make(file, bytes_of, why_not_encodes);
      exact = encoder && encoder->exact();
    } else {
      load(model, name);
    }
  }

  void load(std::string_view model, const std::string& name) {
    about = check_tokenizer_model(model, name);
    const auto status = processor.LoadFromSerializedProto(absl::string_view(model.data(), model.size()));
    if (!status.ok())
      throw Failure(Exit::data, fmt::format("'{}': sentencepiece rejects it: {}", name, status.message()));
    const int size = processor.GetPieceSize();
    byte_piece.fill(processor.unk_id());
    bytes_of.resize(static_cast<std::size_t>(size));
    for (int id = 0; id < size; ++id) {
      std::string& text = bytes_of[static_cast<std::size_t>(id)];
      const std::string& piece = processor.IdToPiece(id);
      if (processor.IsByte(id)) {
        unsigned value = 0;
        if (std::sscanf(piece.c_str(), "<0x%2X>", &value) != 1)
          throw Failure(Exit::data, fmt::format("'{}': its byte piece {} names no byte", name, id));
        text = static_cast<char>(value);
        byte_piece[value] = id;
      } else if (processor.IsUnknown(id)) {
        text = kReplacement;
      } else if (!processor.IsControl(id)) {
        text = without_marks(piece);
      }
    }
    const bool all_bytes = std::ranges::find(byte_piece, processor.unk_id()) == byte_piece.end();
    exact = all_bytes && about.byte_fallback && !about.add_dummy_prefix && !about.remove_extra_whitespaces &&
            about.escape_whitespaces;
  }

  void append(std::string_view text, std::vector<std::int32_t>& ids, std::vector<int>& scratch) const {
    const auto status = processor.Encode(absl::string_view(text.data(), text.size()), &scratch);
    if (exact && (!status.ok() || !spells(scratch, text))) {
      append_bytes(text, ids);
    } else if (status.ok()) {
      ids.insert(ids.end(), scratch.begin(), scratch.end());
    } else {
      throw Failure(Exit::data, fmt::format("sentencepiece cannot encode: {}", status.message()));
    }
  }
  void append_bytes(std::string_view text, std::vector<std::int32_t>& ids) const {
    for (const char byte : text) ids.push_back(byte_piece[static_cast<unsigned char>(byte)]);
  }
  /// An untrusted model may mark a letter as a control token or a byte, so only a verified round trip counts.
  bool spells(const std::vector<int>& tokens, std::string_view text) const {
    for (const int id : tokens) {
      const std::string& bytes = bytes_of[static_cast<std::size_t>(id)];
      if (!text.starts_with(bytes)) return false;
      text.remove_prefix(bytes.size());
    }
    return text.empty();
  }
};

Tokenizer::Tokenizer(const std::filesystem::path& path) {
  const MappedFile file(path);
  const std::string_view model(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  try {
    state_ = std::make_unique<State>(model, path.string(), path);
  } catch (const Failure&) {
    file.check();  // a truncated file must not be blamed on its content
    throw;
  }
  file.check();
}

Tokenizer::Tokenizer(std::string_view model, const std::string& name, const std::filesystem::path& path)
    : state_(std::make_unique<State>(model, name, path)) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;

bool Tokenizer::encodes() const { return !state_->json || state_->encoder; }
const std::string& Tokenizer::why_not_encodes() const { return state_->why_not_encodes; }
bool Tokenizer::is_json() const { return state_->json.has_value(); }
std::int32_t Tokenizer::vocab_size() const { return static_cast<std::int32_t>(state_->bytes_of.size()); }
bool Tokenizer::exact() const { return state_->exact; }

std::int32_t Tokenizer::separator_id() const {
  if (state_->json) return state_->json->separator;
  const int eos = state_->processor.eos_id();
  return eos >= 0 ? eos : state_->processor.bos_id();
}

std::int32_t Tokenizer::unknown_id() const { return state_->json ? -1 : state_->processor.unk_id(); }
std::string Tokenizer::piece(std::int32_t id) const {
  return state_->json ? state_->json->names.at(static_cast<std::size_t>(id)) : state_->processor.IdToPiece(id);
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  if (!encodes())
    throw Failure(Exit::data,
                  fmt::format("llmc can decode with the tokenizer.json but not encode: {}", state_->why_not_encodes));
  std::vector<std::int32_t> ids;
  if (state_->encoder) {
    state_->encoder->encode(text, ids);
    return ids;
  }
  std::vector<int> scratch;
  if (!state_->exact) {  // each call would add a prefix or drop spaces at the ends, so there must be only one
    state_->append(text, ids, scratch);
    return ids;
  }
  while (!text.empty()) {
    for (std::size_t plain = plain_prefix(text); plain > 0;) {
      const std::size_t end = segment_end(text.substr(0, plain));
      state_->append(text.substr(0, end), ids, scratch);
      text.remove_prefix(end);
      plain -= end;
    }
    if (text.empty()) break;
    const std::size_t odd = std::max<std::size_t>(utf8_length(text), 1);
    state_->append_bytes(text.substr(0, odd), ids);
    text.remove_prefix(odd);
  }
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= vocab_size())
      throw Failure(Exit::data,
                    fmt::format("token {} is outside of the tokenizer's vocabulary of {}", id, vocab_size()));
    text += state_->bytes_of[static_cast<std::size_t>(id)];
  }
  return text;
}

}  // namespace llmc
