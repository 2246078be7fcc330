// Files of multiple-choice tasks: both formats, and what is refused.
#include "data/tasks/task_file.h"

#include <gtest/gtest.h>

#include <cstring>

#include "../facts.h"
#include "data/bpe/byte_characters.h"
#include "error.h"

namespace llmc {
namespace {

constexpr TaskLimits kLimits = {300, 10};

std::string numbers(const std::vector<int>& values) {
  std::string bytes;
  for (const int value : values) {
    const auto number = static_cast<std::uint16_t>(value);
    bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  return bytes;
}

/// Two examples in llm.c's format; `examples` is what the header says.
std::string binary(int examples = 2, int version = 1, const std::string& body = "") {
  std::string bytes(1024, '\0');
  const std::int32_t header[3] = {20240522, version, examples};
  std::memcpy(bytes.data(), header, sizeof header);
  const std::string first = numbers({65535, 26, 0, 1, 2, 2, 5, 6, 1, 7, 2, 8, 9});
  const std::string second = numbers({65535, 28, 1, 0, 3, 1, 4, 1, 1, 1, 2, 2, 3, 299});
  return bytes + (body.empty() ? first + second : body);
}

/// A tokenizer whose ids are the bytes, and 256 ends a document.
std::string tokens_of_bytes() {
  std::string vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    std::string name = character_of_byte(static_cast<unsigned char>(byte));
    if (name == "\"" || name == "\\") name.insert(0, "\\");
    vocabulary += (byte ? ",\"" : "\"") + name + "\":" + std::to_string(byte);
  }
  return R"({"added_tokens":[{"id":256,"content":"</s>","special":true}],"decoder":{"type":"ByteLevel"},)"
         R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"model":{"type":"BPE","merges":[],"vocab":{)" +
         vocabulary + "}}}";
}

std::vector<std::int32_t> ids(std::string_view text) {
  std::vector<std::int32_t> all;
  for (const char byte : text) all.push_back(static_cast<unsigned char>(byte));
  return all;
}

class TaskFileTest : public testing::Test {
 protected:
  std::vector<TaskExample> lines(const std::string& text, std::int64_t most = 0) {
    return parse_task(text, "a.jsonl", &tokenizer_, kLimits, most);
  }
  std::string refusal(const std::string& content, const std::string& name = "a.jsonl",
                      const Tokenizer* tokenizer = nullptr) {
    return test::failure_of([&] { parse_task(content, name, tokenizer, kLimits, 0); });
  }
  std::string line_refusal(const std::string& line) { return refusal(line, "a.jsonl", &tokenizer_); }

  const Tokenizer tokenizer_{tokens_of_bytes(), "bytes"};
};

TEST_F(TaskFileTest, ReadsLlmcsFormat) {
  const std::vector<TaskExample> examples = parse_task(binary(), "a.bin", nullptr, kLimits, 0);
  ASSERT_EQ(examples.size(), 2u);
  EXPECT_EQ(examples[0].label, 1);
  ASSERT_EQ(examples[0].endings.size(), 2u);
  EXPECT_EQ(examples[0].endings[1].tokens, (std::vector<std::int32_t>{5, 6, 8, 9}));
  EXPECT_EQ(examples[0].endings[1].first, 2);
  EXPECT_EQ(examples[0].endings[1].length, 2);
  EXPECT_EQ(examples[1].endings[2].tokens, (std::vector<std::int32_t>{4, 3, 299}));
  EXPECT_EQ(parse_task(binary(), "a.bin", nullptr, kLimits, 1).size(), 1u);
}

TEST_F(TaskFileTest, ReadsJsonLines) {
  const auto examples = lines(
      "{\"context\": \"ab \", \"endings\": [\"c\", \" d\xc3\xa9\"], \"label\": 1}\n\n"
      "{\"context\": \"\", \"endings\": [\"x\", \"y\", \"\\n\"], \"label\": 0, \"id\": 7}");
  ASSERT_EQ(examples.size(), 2u);
  EXPECT_EQ(examples[0].label, 1);
  EXPECT_EQ(examples[0].endings[0].tokens, ids("ab c"));
  EXPECT_EQ(examples[0].endings[0].first, 2);  // the blank at the context's end belongs to the endings
  EXPECT_EQ(examples[0].endings[1].tokens, ids("ab  d\xc3\xa9"));
  EXPECT_EQ(examples[0].endings[1].length, 2);  // characters, without the blank
  EXPECT_EQ(examples[1].endings[0].tokens, (std::vector<std::int32_t>{256, 'x'}));
  EXPECT_EQ(examples[1].endings[0].first, 1);
  EXPECT_EQ(examples[1].endings[2].length, 1);
  EXPECT_EQ(lines("{\"context\": \"a\", \"endings\": [\"b\", \"c\"], \"label\": 1}\nno JSON", 1).size(), 1u);
}

TEST_F(TaskFileTest, RefusesWhatItCannotAnswer) {
  const auto says = [](const std::string& problem, std::initializer_list<const char*> facts) {
    for (const char* fact : facts) EXPECT_NE(problem.find(fact), std::string::npos) << problem << "\nlacks " << fact;
  };
  const auto of_binary = [&](const std::string& content) { return refusal(content, "a.bin"); };
  says(of_binary("no task"), {"'a.bin'", "20240522", ".jsonl"});
  says(of_binary(binary(2, 2)), {"version 2", "reads 1"});
  says(of_binary(binary(0)), {"no examples"});
  says(of_binary(binary(3)), {"cut short"});
  says(of_binary(binary(1)), {"28 bytes after"});
  says(of_binary(binary().substr(0, 1024 + 20)), {"cut short"});
  says(of_binary(binary(1, 1, numbers({1, 26, 0, 1, 2, 2, 5, 6, 1, 7, 2, 8, 9}))), {"example 0", "65535"});
  says(of_binary(binary(1, 1, numbers({65535, 26, 3, 1, 2, 2, 5, 6, 1, 7, 2, 8, 9}))), {"number of another"});
  says(of_binary(binary(1, 1, numbers({65535, 28, 0, 1, 2, 2, 5, 6, 1, 7, 2, 8, 9}))), {"26 bytes", "28"});
  says(of_binary(binary(1, 1, numbers({65535, 26, 0, 2, 2, 2, 5, 6, 1, 7, 2, 8, 9}))), {"label 2", "2 endings"});
  says(of_binary(binary(1, 1, numbers({65535, 18, 0, 0, 1, 1, 5, 1, 7}))), {"fewer than two"});
  says(of_binary(binary(1, 1, numbers({65535, 20, 0, 0, 2, 0, 1, 7, 1, 8}))), {"no token before"});
  says(of_binary(binary(1, 1, numbers({65535, 20, 0, 0, 2, 1, 5, 1, 7, 0}))), {"no token in ending 1"});
  says(of_binary(binary(1, 1, numbers({65535, 22, 0, 0, 2, 1, 5, 1, 300, 1, 7}))), {"token 300", "below 300"});
  says(of_binary(binary(1, 1, numbers({65535, 42, 0, 0, 2, 1, 5, 1, 7, 11, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}))),
       {"12 tokens with ending 1", "sequence_length 10"});
  says(of_binary(binary(1, 1, numbers({65535, 26, 0, 0, 1001, 2, 5, 6, 1, 7, 2, 8, 9}))), {"1001 endings", "1000"});
  says(of_binary(binary(1, 1, numbers({65535, 26, 0, 0, 2, 12, 5}))), {"12 tokens in its context", "allows 11"});
  says(of_binary(binary(1, 1, numbers({65535, 24, 0, 1, 2, 2, 5, 6, 1, 7, 2, 8, 9}))), {"more than the 24 bytes"});
  says(line_refusal("{\"context\": \"twelve bytes\", \"endings\": [\"b\", \"c\"], \"label\": 0}"),
       {"12 tokens in its context"});
  says(line_refusal("{\"context\": \"a           \", \"endings\": [\"b\", 7], \"label\": 0}"),
       {"13 tokens with ending 0"});
  says(refusal("{}"), {"'a.jsonl'", "no tokenizer", "data.tokenizer"});
  says(line_refusal(""), {"no examples"});
  says(line_refusal("{\"context\": 1"), {"line 1", "JSON object"});
  says(line_refusal("{\"context\": \"a\", \"endings\": [\"b\", \"c\"]}"), {"no 'label'"});
  says(line_refusal("{\"context\": 1, \"endings\": [\"b\", \"c\"], \"label\": 0}"), {"'context'"});
  says(line_refusal("{\"context\": \"a\", \"endings\": \"b\", \"label\": 0}"), {"'endings'"});
  says(line_refusal("{\"context\": \"a\", \"endings\": [\"b\", 1], \"label\": 0}"), {"an ending"});
  says(line_refusal("{\"context\": \"a\", \"endings\": [\"b\", \"c\"], \"label\": \"0\"}"), {"'label'"});
  says(line_refusal("{\"context\": \"a\", \"endings\": [\"b\", \"c\"], \"label\": -1}"), {"label -1"});
  says(line_refusal("{\"context\": \"a\", \"endings\": [\"b\", \"c\"], \"label\": 1, \"label\": 0}"), {"key twice"});
  says(line_refusal("{\"context\": \"a\", \"endings\": [\"b\", \"\"], \"label\": 0}"), {"no token in ending 1"});
}

}  // namespace
}  // namespace llmc
