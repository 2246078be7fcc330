// Validates messages received by a rendezvous.
#include "comm/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace llmc {
namespace {

using testing::HasSubstr;

std::string nonsense(const std::string& bytes, std::size_t limit = 100) {
  MessageReader reader(limit);
  reader.add(bytes);
  try {
    while (reader.next()) {
    }
    return "";
  } catch (const WireError& error) {
    return error.what();
  }
}

std::string with(std::size_t at, char value) {
  std::string bytes = encode(Word::beat, "body");
  bytes[at] = value;
  return bytes;
}

TEST(Wire, MessagesComeOutAsTheyWentIn) {
  const std::string body = BodyWriter().number(~0ull - 1).text(std::string("a\0b", 3)).texts({"", "c"}).body();
  const std::string bytes = encode(Word::gather, body) + encode(Word::beat, "");
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    MessageReader reader(body.size());
    std::vector<Message> messages;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      reader.add(std::string_view(bytes).substr(at, piece));
      while (std::optional<Message> message = reader.next()) messages.push_back(std::move(*message));
    }
    ASSERT_EQ(messages.size(), 2u) << piece;
    EXPECT_EQ(messages[0].word, Word::gather);
    EXPECT_EQ(messages[1].word, Word::beat);
    BodyReader read(messages[0].body);
    EXPECT_EQ(read.number(), ~0ull - 1);
    EXPECT_EQ(read.text(), std::string("a\0b", 3));
    EXPECT_EQ(read.texts(2), (std::vector<std::string>{"", "c"}));
    read.end();
  }
}

TEST(Wire, WhatIsNoMessageIsKnownAtItsFirstWrongByte) {
  EXPECT_THAT(nonsense("G"), HasSubstr("another protocol"));
  EXPECT_THAT(nonsense("llmC"), HasSubstr("another protocol"));
  EXPECT_EQ(nonsense("llm"), "");
  EXPECT_THAT(nonsense(with(4, 3).substr(0, 6)), HasSubstr("version 3"));
  EXPECT_THAT(nonsense(with(5, 1)), HasSubstr("version 258"));
  EXPECT_THAT(nonsense(with(6, 0)), HasSubstr("unknown kind 0"));
  EXPECT_THAT(nonsense(with(6, 13)), HasSubstr("unknown kind 13"));
}

TEST(Wire, LengthsHaveALimit) {
  EXPECT_EQ(nonsense(encode(Word::beat, std::string(100, 'x'))), "");
  EXPECT_THAT(nonsense(encode(Word::beat, std::string(101, 'x')).substr(0, 16)), HasSubstr("101 bytes, where 100"));
  EXPECT_THAT(nonsense(with(15, '\xff')), HasSubstr("18374686479671623684 bytes"));
}

TEST(Wire, BodiesAreNoShorterAndNoLongerThanTheirParts) {
  EXPECT_THROW(BodyReader("1234567").number(), WireError);
  EXPECT_THROW(BodyReader(BodyWriter().number(1).body()).text(), WireError);
  EXPECT_THROW(BodyReader(BodyWriter().number(~0ull).body()).text(), WireError);
  EXPECT_THROW(BodyReader(BodyWriter().text("a").body()).texts(2), WireError);
  EXPECT_THROW(BodyReader("x").end(), WireError);
}

}  // namespace
}  // namespace llmc
