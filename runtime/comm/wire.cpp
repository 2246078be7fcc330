#include "comm/wire.h"

namespace llmc {
namespace {

constexpr std::uint32_t kMagic = 0x636d6c6c;  // "llmc"
constexpr std::uint16_t kVersion = 2;
constexpr std::size_t kHeader = 16;  // magic 4, version 2, word 2, length 8

void put(std::string& bytes, std::uint64_t value, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
}

std::uint64_t get(std::string_view bytes, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i)
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  return value;
}

}  // namespace

std::string encode(Word word, std::string_view body) {
  std::string bytes;
  bytes.reserve(kHeader + body.size());
  put(bytes, kMagic, 4);
  put(bytes, kVersion, 2);
  put(bytes, static_cast<std::uint16_t>(word), 2);
  put(bytes, body.size(), 8);
  bytes += body;
  return bytes;
}

BodyWriter& BodyWriter::number(std::uint64_t value) {
  put(body_, value, 8);
  return *this;
}

BodyWriter& BodyWriter::text(std::string_view value) {
  number(value.size());
  body_ += value;
  return *this;
}

BodyWriter& BodyWriter::texts(const std::vector<std::string>& values) {
  for (const std::string& value : values) text(value);
  return *this;
}

std::uint64_t BodyReader::number() {
  if (rest_.size() < 8) throw WireError("a message that is too short");
  const std::uint64_t value = get(rest_, 0, 8);
  rest_.remove_prefix(8);
  return value;
}

std::string BodyReader::text() {
  const std::uint64_t size = number();
  if (size > rest_.size()) throw WireError("a string longer than its message");
  std::string value(rest_.substr(0, size));
  rest_.remove_prefix(size);
  return value;
}

std::vector<std::string> BodyReader::texts(std::size_t count) {
  std::vector<std::string> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(text());
  return values;
}

void BodyReader::end() const {
  if (!rest_.empty()) throw WireError("a message that is too long");
}

std::optional<Message> MessageReader::next() {
  const std::string_view rest = std::string_view(bytes_).substr(taken_);
  // An unlisted peer is recognised by its first bytes, because it may never send a whole header.
  for (std::size_t i = 0; i < rest.size() && i < 4; ++i)
    if (get(rest, i, 1) != (kMagic >> (8 * i) & 0xff)) throw WireError("bytes of another protocol");
  if (rest.size() >= 6 && get(rest, 4, 2) != kVersion)
    throw WireError("version " + std::to_string(get(rest, 4, 2)) + " of the rendezvous, but this trainer has " +
                    std::to_string(kVersion) + ": the ranks run different trainers");
  if (rest.size() < kHeader) return std::nullopt;
  const std::uint64_t word = get(rest, 6, 2), size = get(rest, 8, 8);
  if (word < static_cast<std::uint64_t>(Word::hello) || word > static_cast<std::uint64_t>(Word::apart))
    throw WireError("a message of unknown kind " + std::to_string(word));
  if (size > limit_)
    throw WireError("a message of " + std::to_string(size) + " bytes, where " + std::to_string(limit_) +
                    " are allowed");
  if (rest.size() - kHeader < size) return std::nullopt;
  Message message{static_cast<Word>(word), std::string(rest.substr(kHeader, size))};
  taken_ += kHeader + size;
  if (taken_ == bytes_.size() || taken_ > (std::size_t{1} << 16)) {
    bytes_.erase(0, taken_);
    taken_ = 0;
  }
  return message;
}

}  // namespace llmc
