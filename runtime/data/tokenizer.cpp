#include "data/tokenizer.h"

#include <fmt/format.h>

#include <optional>

#include "data/bpe/encoder.h"
#include "data/mapped_file.h"
#include "data/sentencepiece_encoder.h"
#include "data/tokenizer_json.h"
#include "error.h"

namespace llmc {

namespace {

constexpr std::size_t kMaxModelBytes = 64 << 20;

}  // namespace

void check_tokenizer_size(std::size_t bytes, const std::string& name) {
  if (bytes > kMaxModelBytes)
    throw Failure(Exit::data,
                  fmt::format("'{}': has {} bytes, but a tokenizer may have at most {}", name, bytes, kMaxModelBytes));
}

struct Tokenizer::State {
  std::optional<SentencePieceEncoder> pieces;  // of a sentencepiece model
  std::optional<JsonVocabulary> json;          // of a tokenizer.json
  std::unique_ptr<const BpeEncoder> encoder;   // of a tokenizer.json
  std::string why_not_encodes;

  State(std::string_view model, const std::string& name, const std::filesystem::path& path) {
    check_tokenizer_size(model.size(), name);
    if (!looks_like_json(model)) {
      pieces.emplace(model, name);
      return;
    }
    const TokenizerFile file = read_tokenizer_file(model, name);
    json = vocabulary_of(file, name, path.empty() ? NamedSeparator{} : separator_next_to(path));
    encoder = BpeEncoder::make(file, json->bytes_of, why_not_encodes);
  }
  /// [vocab_size]: decoded bytes of each token.
  const std::vector<std::string>& bytes_of() const { return json ? json->bytes_of : pieces->bytes_of(); }
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
std::int32_t Tokenizer::vocab_size() const { return static_cast<std::int32_t>(state_->bytes_of().size()); }
std::int32_t Tokenizer::tokens_of_data() const { return state_->json ? state_->json->tokens_of_data() : vocab_size(); }
bool Tokenizer::exact() const {
  return state_->pieces ? state_->pieces->exact() : state_->encoder && state_->encoder->exact();
}

std::int32_t Tokenizer::separator_id() const {
  if (state_->json) return state_->json->separator;
  const sentencepiece::SentencePieceProcessor& processor = state_->pieces->processor();
  return processor.eos_id() >= 0 ? processor.eos_id() : processor.bos_id();
}

std::int32_t Tokenizer::unknown_id() const { return state_->json ? -1 : state_->pieces->processor().unk_id(); }
std::string Tokenizer::piece(std::int32_t id) const {
  return state_->json ? state_->json->names.at(static_cast<std::size_t>(id))
                      : state_->pieces->processor().IdToPiece(id);
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  if (!encodes())
    throw Failure(Exit::data,
                  fmt::format("llmc can decode with the tokenizer.json but not encode: {}", state_->why_not_encodes));
  std::vector<std::int32_t> ids;
  state_->json ? state_->encoder->encode(text, ids) : state_->pieces->encode(text, ids);
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= vocab_size())
      throw Failure(Exit::data,
                    fmt::format("token {} is outside of the tokenizer's vocabulary of {}", id, vocab_size()));
    text += state_->bytes_of()[static_cast<std::size_t>(id)];
  }
  return text;
}

}  // namespace llmc
