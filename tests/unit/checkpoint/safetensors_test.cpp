// Checks the safetensors parser on valid and invalid headers, and the writer against the bytes of the format.
#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <stdexcept>

#include "../facts.h"
#include "checkpoint/manifest.h"
#include "error.h"
#include "small_state.h"

namespace llmc::safetensors {
namespace {

constexpr char kVector[] =
    "58000000000000007b225f5f6d657461646174615f5f223a7b22666f726d6174223a227074227d2c2277223a7b226474797065223a22463332"
    "222c227368617065223a5b325d2c22646174615f6f666673657473223a5b302c385d7d7d2020200000803f00000040";

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

TEST(Safetensors, WriterGivesTheReferenceBytes) {
  test::Folder directory;
  const TensorSpec spec{"w", Dtype::kF32, {2}};
  Writer writer(directory.path / "a", {&spec, 1});
  const float values[] = {1, 2};
  writer.append(values, 4);
  writer.append(values + 1, 4);
  const FileRecord record = writer.finish();
  EXPECT_EQ(read_all(directory.path / "a"), from_hex(kVector));
  EXPECT_EQ(record.bytes, 104u);
}

TEST(Safetensors, ReaderReadsTheReferenceBytes) {
  test::Folder directory;
  write_all(directory.path / "a", from_hex(kVector));
  const Reader reader(directory.path / "a");
  EXPECT_EQ(reader.metadata().at("format"), "pt");
  ASSERT_EQ(reader.entries().size(), 1u);
  const Entry* entry = reader.find("w");
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->shape, std::vector<std::int64_t>{2});
  float values[2];
  reader.read(*entry, 0, values, 8);
  EXPECT_EQ(values[0], 1);
  EXPECT_EQ(values[1], 2);
  EXPECT_EQ(reader.find("v"), nullptr);
  EXPECT_THROW(reader.read(*entry, 4, values, 8), Failure);
}

TEST(Safetensors, WriterOrdersByAlignmentThenName) {
  const std::vector<TensorSpec> specs = {{"b", Dtype::kBF16, {3}},
                                         {"z", Dtype::kI64, {1}},
                                         {"c", Dtype::kF32, {}},
                                         {"a", Dtype::kI32, {2}},
                                         {"e", Dtype::kF32, {0, 7}}};
  std::string order;
  for (const Entry& entry : layout(specs)) order += entry.name + std::to_string(entry.begin) + " ";
  EXPECT_EQ(order, "z0 a8 c16 e20 b20 ");
  const std::string header = format_header(layout(specs));
  EXPECT_EQ(header.size() % 8, 0u);
  const Header parsed = parse_header(header.substr(8), 26);
  EXPECT_EQ(parsed.entries.size(), 5u);
  EXPECT_TRUE(parsed.entries[2].shape.empty() || parsed.entries[3].shape.empty());
}

TEST(Safetensors, WriterRefusesWhatAReaderWould) {
  EXPECT_THROW(layout(std::vector<TensorSpec>{{"a", Dtype::kF32, {1}}, {"a", Dtype::kF32, {1}}}),
               std::invalid_argument);
  EXPECT_THROW(layout(std::vector<TensorSpec>{{"a", Dtype::kF32, {1LL << 40, 1LL << 40}}}), std::invalid_argument);
  EXPECT_THROW(layout(std::vector<TensorSpec>{{"__metadata__", Dtype::kF32, {1}}}), std::invalid_argument);
  test::Folder directory;
  const TensorSpec spec{"w", Dtype::kF32, {2}};
  Writer writer(directory.path / "a", {&spec, 1});
  EXPECT_THROW(writer.finish(), Failure);
}

std::string refusal(const std::string& json, std::uint64_t data_bytes) try {
  parse_header(json, data_bytes);
  return "accepted";
} catch (const std::invalid_argument& error) {
  return error.what();
}

TEST(Safetensors, SoundHeaders) {
  EXPECT_EQ(refusal("{}", 0), "accepted");
  EXPECT_EQ(refusal("{}   ", 0), "accepted");
  EXPECT_EQ(refusal(R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})", 4), "accepted");
  EXPECT_EQ(refusal(R"({"a":{"data_offsets":[2,4],"dtype":"BF16","shape":[1]},"b":{"dtype":"BF16","shape":[1],)"
                    R"("data_offsets":[0,2]},"c":{"dtype":"U8","shape":[0,5],"data_offsets":[2,2]}})",
                    4),
            "accepted");
}

TEST(Safetensors, UnsoundHeaders) {
  const struct {
    std::string json;
    std::uint64_t data_bytes;
    test::Facts reason;
  } cases[] = {
      {"", 0, "begin with"},
      {" {}", 0, "begin with"},
      {"\xef\xbb\xbf{}", 0, "begin with"},
      {"[]", 0, "begin with"},
      {"{} x", 0, "not valid JSON"},
      {std::string("{}\0", 3), 0, "NUL"},
      {"{", 0, "not valid JSON"},
      {"{\"\xff\":1}", 0, "UTF-8"},
      {R"({"\ud800":1})", 0, "not valid JSON"},
      {R"({"a":1})", 0, "a number where"},
      {R"({"a":"x"})", 0, "a string where"},
      {R"({"a":[1]})", 0, "an array where"},
      {R"({"a":null})", 0, "null"},
      {R"({"a":{}})", 0, "lacks"},
      {R"({"a":{"dtype":"F32","shape":[1]}})", 4, "lacks"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", 4, "unknown key 'x'"},
      {R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", 4, "unknown dtype 'F31'"},
      {R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4, "twice"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
       2, "'a' is listed twice"},
      {R"({"__metadata__":{"a":"b","a":"c"}})", 0, "metadata key 'a' is listed twice"},
      {R"({"__metadata__":{},"__metadata__":{}})", 0, "twice"},
      {R"({"__metadata__":{"a":1}})", 0, "a number where"},
      {R"({"__metadata__":{"a":{}}})", 0, "an object where"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "negative"},
      {R"({"a":{"dtype":"F32","shape":[-0],"data_offsets":[0,0]}})", 0, "negative"},
      {R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4, "not an integer"},
      {R"({"a":{"dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,4]}})", 4, "not an integer"},
      {R"({"a":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4]}})", 4, "too large"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0, "overflows"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296,0],"data_offsets":[0,0]}})", 0, "overflows"},
      {R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", 4, "an array where"},
      {R"({"a":{"dtype":"F32","shape":{},"data_offsets":[0,4]}})", 4, "an object where"},
      {R"({"a":{"dtype":"F32","shape":["1"],"data_offsets":[0,4]}})", 4, "a string where"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4, "two numbers"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,4]}})", 4, "two numbers"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "overlaps"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "do not match"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 8, {"4 bytes", "8"}},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 3, {"4 bytes", "3"}},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8, "leaves a gap"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       3, "overlaps"},
      {R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})", 1, "16 dimensions"},
      {"{\"a\x01\":1}", 0, "not valid JSON"},
      {R"({"a\n":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1, "control character"},
      {"{\"" + std::string(1025, 'a') + "\":1}", 0, "longer than 1024"},
      {std::string(100000, '{'), 0, "not valid JSON"},
      {"{\"a\":" + std::string(100000, '['), 0, "an array where"},
  };
  for (const auto& c : cases)
    EXPECT_TRUE(test::has_facts(refusal(c.json, c.data_bytes), c.reason)) << c.json.substr(0, 200);
}

TEST(Safetensors, AGitLfsPointerIsCalledThat) {
  test::Folder directory;
  write_all(directory.path / "a", "version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 9\n");
  for (const auto& read : {std::function<void()>([&] { Reader(directory.path / "a"); }),
                           std::function<void()>([&] { read_small_file(directory.path / "a"); })}) {
    try {
      read();
      FAIL() << "no error";
    } catch (const Failure& failure) {
      EXPECT_TRUE(test::has_facts(failure.what(), {"a'", "Git LFS", "`git lfs pull`"}));
    }
  }
}

TEST(Safetensors, FilesCutAnywhereAreRefused) {
  test::Folder directory;
  const std::string sound = from_hex(kVector);
  for (std::size_t size = 0; size < sound.size(); ++size) {
    write_all(directory.path / "a", sound.substr(0, size));
    EXPECT_THROW(Reader(directory.path / "a"), Failure) << size;
  }
  std::string huge = sound;
  huge[7] = 0x7f;  // a header of 2^62 bytes
  write_all(directory.path / "a", huge);
  EXPECT_THROW(Reader(directory.path / "a"), Failure);
  EXPECT_THROW(Reader(directory.path), Failure);
  EXPECT_THROW(Reader(directory.path / "none"), Failure);
}

}  // namespace
}  // namespace llmc::safetensors
