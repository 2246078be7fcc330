// Encodes the messages of a rendezvous: a magic number, a version, a type, a length, a body. Received bytes are
// validated before use.
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
  hello = 1,      // to rank 0: rank, world size, run, trainer, host
  accepted = 2,   // from rank 0: its host
  refused = 3,    // from rank 0: exit code and reason
  welcome = 4,    // from rank 0: all are connected; the host of each
  beat = 5,       // step and activity
  gather = 6,     // to rank 0: number of the call and a text
  gathered = 7,   // from rank 0: number of the call and all texts
  leave = 8,      // gather, then the end
  left = 9,       // gathered, then the end
  farewell = 10,  // exit code and reason
  lost = 11,      // from rank 0: lost rank, and how
  apart = 12,     // from rank 0: collectives that differ, or one that takes too long
};

struct Message {
  Word word;
  std::string body;
};

/// Received bytes are no message of a run. The text describes them: "a magic number of something else".
class WireError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Encodes header and body.
std::string encode(Word word, std::string_view body);

/// Appends numbers and strings to a body, little-endian, strings prefixed by their length.
class BodyWriter {
 public:
  BodyWriter& number(std::uint64_t value);
  BodyWriter& text(std::string_view value);
  BodyWriter& texts(const std::vector<std::string>& values);
  const std::string& body() const { return body_; }

 private:
  std::string body_;
};

/// Reads them back. Throws WireError if the body ends too early, or not at end().
class BodyReader {
 public:
  explicit BodyReader(std::string_view body) : rest_(body) {}
  std::uint64_t number();
  std::string text();
  /// Reads exactly `count` strings.
  std::vector<std::string> texts(std::size_t count);
  void end() const;

 private:
  std::string_view rest_;
};

/// Splits a stream of bytes into messages. Buffers only received bytes, and no message above its limit.
class MessageReader {
 public:
  /// `limit`: of one body, in bytes.
  explicit MessageReader(std::size_t limit) : limit_(limit) {}
  void set_limit(std::size_t limit) { limit_ = limit; }
  void add(std::string_view bytes) { bytes_.append(bytes); }
  /// Discards received bytes.
  void clear() {
    bytes_ = {};
    taken_ = 0;
  }
  /// Next complete message. Throws WireError; nothing after that can be read.
  std::optional<Message> next();

 private:
  std::size_t limit_;
  std::string bytes_;
  std::size_t taken_ = 0;  // of bytes_
};

}  // namespace llmc
