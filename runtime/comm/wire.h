// The messages of a rendezvous as bytes: a magic number, a version, a type, a length, a body. What comes from the wire
// is checked before it is believed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace llmc {

enum class Word : std::uint16_t {
  hello = 1,      // to rank 0: the rank, of how many, of which run and trainer, on which host
  accepted = 2,   // from rank 0: its host
  refused = 3,    // from rank 0: an exit code and why
  welcome = 4,    // from rank 0: all are there; the host of each
  beat = 5,       // the step and what is done there
  gather = 6,     // to rank 0: the number of the call and a text
  gathered = 7,   // from rank 0: the number of the call and all texts
  leave = 8,      // gather, and then the end
  left = 9,       // gathered, and then the end
  farewell = 10,  // an exit code and why
  lost = 11,      // from rank 0: who, and how
  apart = 12,     // from rank 0: how the ranks' collectives differ, or which lasts too long
};

struct Message {
  Word word;
  std::string body;
};

/// What came is no message of a run. The text says how: "a magic number of something else".
class WireError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Header and body.
std::string encode(Word word, std::string_view body);

/// Puts numbers and texts into a body, little-endian, texts after their length.
class BodyWriter {
 public:
  BodyWriter& number(std::uint64_t value);
  BodyWriter& text(std::string_view value);
  BodyWriter& texts(const std::vector<std::string>& values);
  const std::string& body() const { return body_; }

 private:
  std::string body_;
};

/// Takes them out. Throws WireError where the body ends too early, or not at end().
class BodyReader {
 public:
  explicit BodyReader(std::string_view body) : rest_(body) {}
  std::uint64_t number();
  std::string text();
  /// As many as there must be.
  std::vector<std::string> texts(std::size_t count);
  void end() const;

 private:
  std::string_view rest_;
};

/// Cuts a stream of bytes into messages. Holds no more than what has come, and no message past its limit.
class MessageReader {
 public:
  /// Of one body, in bytes.
  explicit MessageReader(std::size_t limit) : limit_(limit) {}
  void set_limit(std::size_t limit) { limit_ = limit; }
  void add(std::string_view bytes) { bytes_.append(bytes); }
  /// Forgets what has come.
  void clear() {
    bytes_ = {};
    taken_ = 0;
  }
  /// The next whole message. Throws WireError; nothing after that can be read.
  std::optional<Message> next();

 private:
  std::size_t limit_;
  std::string bytes_;
  std::size_t taken_ = 0;  // of bytes_
};

}  // namespace llmc
