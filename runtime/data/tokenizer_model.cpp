#include "data/tokenizer_model.h"

#include <fmt/format.h>

#include "error.h"

namespace llmc {

namespace {

constexpr std::int64_t kMaxPieces = 1 << 20;
constexpr std::size_t kMaxPieceBytes = 4096;

/// Reads a protobuf message field by field and checks every length against the remaining bytes.
class Fields {
 public:
  Fields(std::string_view rest, const std::string& name) : rest_(rest), name_(name) {}

  bool next() {
    if (rest_.empty()) return false;
    const std::uint64_t tag = varint();
    number = tag >> 3;
    wire = static_cast<int>(tag & 7);
    if (number == 0 || number > 0x1fffffff) fail();
    value = 0;
    bytes = {};
    switch (wire) {
      case 0: value = varint(); break;
      case 1: bytes = take(8); break;
      case 2: bytes = take(varint()); break;
      case 5: bytes = take(4); break;
      default: fail();
    }
    return true;
  }
  /// Bytes of a string or message field.
  std::string_view message() const {
    if (wire != 2) fail();
    return bytes;
  }
  std::uint64_t integer() const {
    if (wire != 0) fail();
    return value;
  }

  std::uint64_t number = 0, value = 0;
  int wire = 0;
  std::string_view bytes;

 private:
  [[noreturn]] void fail() const {
    throw Failure(Exit::data, fmt::format("'{}': is not a sentencepiece model, or is damaged", name_));
  }
  std::string_view take(std::uint64_t count) {
    if (count > rest_.size()) fail();
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  std::uint64_t varint() {
    std::uint64_t result = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      result |= std::uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return result;
    }
    fail();
  }

  std::string_view rest_;
  const std::string& name_;
};

// Field numbers of sentencepiece_model.proto.
enum : std::uint64_t { kPieces = 1, kTrainerSpec = 2, kNormalizerSpec = 3, kSelfTest = 4, kDenormalizerSpec = 5 };
enum : std::uint64_t { kPieceText = 1, kModelType = 3, kByteFallback = 35 };
enum : std::uint64_t { kCharsMap = 2, kDummyPrefix = 3, kExtraWhitespaces = 4, kEscapeWhitespaces = 5, kRuleTsv = 6 };
constexpr std::uint64_t kBpe = 2;

}  // namespace

TokenizerModel check_tokenizer_model(std::string_view model, const std::string& name) {
  const auto fail = [&](const std::string& what) { throw Failure(Exit::data, fmt::format("'{}': {}", name, what)); };
  TokenizerModel about;
  std::uint64_t model_type = 1;  // unigram, the default of the format
  for (Fields field(model, name); field.next();) {
    if (field.number == kPieces) {
      if (++about.pieces > kMaxPieces) fail(fmt::format("has more than {} pieces", kMaxPieces));
      for (Fields piece(field.message(), name); piece.next();)
        if (piece.number == kPieceText && piece.message().size() > kMaxPieceBytes)
          fail(fmt::format("has a piece of {} bytes, which is too long", piece.bytes.size()));
    } else if (field.number == kTrainerSpec) {
      for (Fields spec(field.message(), name); spec.next();) {
        if (spec.number == kModelType) model_type = spec.integer();
        if (spec.number == kByteFallback) about.byte_fallback = spec.integer() != 0;
      }
    } else if (field.number == kNormalizerSpec || field.number == kDenormalizerSpec) {
      for (Fields spec(field.message(), name); spec.next();) {
        if ((spec.number == kCharsMap || spec.number == kRuleTsv) && !spec.message().empty())
          fail("normalises text, so decoding would not restore it. Train it with --normalization_rule_name=identity");
        if (field.number == kDenormalizerSpec) continue;
        if (spec.number == kDummyPrefix) about.add_dummy_prefix = spec.integer() != 0;
        if (spec.number == kExtraWhitespaces) about.remove_extra_whitespaces = spec.integer() != 0;
        if (spec.number == kEscapeWhitespaces) about.escape_whitespaces = spec.integer() != 0;
      }
    } else if (field.number == kSelfTest && !field.message().empty()) {
      fail("has self-tests, which llmc does not run. Train it without --self_test_sample_size");
    }
  }
  if (about.pieces == 0) fail("has no pieces, so it is not a sentencepiece model");
  if (model_type != kBpe) fail("is not a BPE model. Train it with --model_type=bpe, or use 'llmc data build'");
  return about;
}

}  // namespace llmc
