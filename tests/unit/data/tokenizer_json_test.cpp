// Hugging Face's tokenizer.json: decoded bytes of its tokens, and refusals.
#include "data/tokenizer_json.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "../facts.h"
#include "../folder.h"
#include "data/tokenizer.h"
#include "error.h"
#include "text/utf8.h"

namespace llmc {
namespace {

using Json = nlohmann::ordered_json;

/// As in GPT-2, Llama 3 and Qwen 3: "Ġ" is a blank, "Ċ" a line feed, "ÃĢ" the two bytes of "À".
Json byte_level() {
  return {{"version", "1.0"},
          {"added_tokens",
           {{{"id", 6}, {"content", "<|endoftext|>"}, {"special", true}, {"lstrip", false}},
            {{"id", 7}, {"content", "<think>"}, {"special", false}},
            {{"id", 8}, {"content", "a b"}, {"special", false}}}},
          {"normalizer", {{"type", "NFC"}}},
          {"decoder", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"model",
           {{"type", "BPE"},
            {"vocab",
             {{"a", 0},
              {"\xc4\xa0"
               "b",
               1},
              {"\xc4\x8a", 2},
              {"\xc3\x83", 3},
              {"\xc4\xa2", 4},
              {"!", 5}}},
            {"merges", {"\xc4\xa0 b", Json::array({"a", "b"})}}}}};
}

/// As in Llama 2: U+2581 is a blank, <0x0A> a byte.
Json byte_fallback() {
  return Json::parse(
      R"({"added_tokens": [{"id": 0, "content": "<unk>", "special": true}, {"id": 1, "content": "</s>", "special": true}],
    "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
      {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    "model": {"type": "BPE", "byte_fallback": true, "unk_token": "<unk>",
      "vocab": {"<unk>": 0, "</s>": 1, "<0x0A>": 2, "<0xff>": 3, "▁a": 4, "▁▁": 5, "b▁c": 6, "<0xZZ>": 7}}})");
}

std::string decode(const Json& json, std::vector<std::int32_t> ids) {
  return Tokenizer(json.dump(), "test").decode(ids);
}

std::string problem(const std::string& json) {
  try {
    parse_tokenizer_json(json, "test");
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), Exit::data);
    const std::string text = failure.what();
    EXPECT_TRUE(test::has_facts(text, {"'test'", "tokenizer: "}));
    return text.substr(text.find(": ") + 2);
  }
  return "";
}

std::string problem(Json json, const std::string& pointer, const Json& value) {
  json[Json::json_pointer(pointer)] = value;
  return problem(json.dump());
}

TEST(TokenizerJson, ByteLevelTokensAreBytes) {
  EXPECT_EQ(decode(byte_level(), {0, 1, 2, 5}), "a b\n!");
  EXPECT_EQ(decode(byte_level(), {3, 4}), "\xc3\x80");
  EXPECT_EQ(decode(byte_level(), {4}), "\x80");           // one byte of a character
  EXPECT_EQ(decode(byte_level(), {0, 6, 0}), "aa");       // special tokens give nothing
  EXPECT_EQ(decode(byte_level(), {7, 8}), "<think>a b");  // others are text, including a blank that encodes no byte
  const Tokenizer tokenizer(byte_level().dump(), "test");
  EXPECT_EQ(tokenizer.vocab_size(), 9);
  EXPECT_EQ(tokenizer.separator_id(), 6);
  EXPECT_EQ(tokenizer.piece(6), "<|endoftext|>");
  EXPECT_FALSE(tokenizer.encodes());
  EXPECT_FALSE(tokenizer.exact());
  EXPECT_THROW(tokenizer.encode("a"), Failure);
  EXPECT_THROW(tokenizer.decode(std::vector<std::int32_t>{9}), Failure);
}

TEST(TokenizerJson, EveryByteHasACharacter) {
  // The 256 characters of bytes_to_unicode, in the order of bytes: printable ones unchanged, the others from U+0100 on.
  Json json = byte_level();
  json["added_tokens"] = Json::array();
  Json& vocabulary = json["model"]["vocab"] = Json::object();
  std::string all;
  int other = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool itself = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
    const int point = itself ? byte : other++;
    std::string text(1, static_cast<char>(point));
    if (point >= 0x80) text = {static_cast<char>(0xc0 | point >> 6), static_cast<char>(0x80 | (point & 0x3f))};
    vocabulary[text] = byte;
    all += static_cast<char>(byte);
  }
  EXPECT_EQ(other, 0x100 + 68);
  std::vector<std::int32_t> ids(256);
  for (int i = 0; i < 256; ++i) ids[static_cast<std::size_t>(i)] = i;
  EXPECT_EQ(decode(json, ids), all);
  EXPECT_EQ(Tokenizer(json.dump(), "test").separator_id(), -1);
}

TEST(TokenizerJson, ByteFallback) {
  EXPECT_EQ(decode(byte_fallback(), {4, 5, 6, 2}), " a  b c\n");
  EXPECT_EQ(decode(byte_fallback(), {0, 3, 7, 1}), "\xff<0xZZ>");
  EXPECT_EQ(Tokenizer(byte_fallback().dump(), "test").separator_id(), 1);
  Json metaspace = byte_fallback();
  metaspace["decoder"] = {{"type", "Metaspace"}, {"replacement", "\xe2\x96\x81"}, {"prepend_scheme", "always"}};
  EXPECT_EQ(decode(metaspace, {4, 6, 2}), " ab c<0x0A>");
}

TEST(TokenizerJson, FilesNextToItNameTheSeparator) {
  const test::Folder folder;
  const auto of_folder = [&] { return Tokenizer(folder / "tokenizer.json").separator_id(); };
  folder.write("tokenizer.json", byte_level().dump());
  EXPECT_EQ(of_folder(), 6);
  folder.write("tokenizer_config.json", R"({"eos_token": null})");
  EXPECT_EQ(of_folder(), 6) << "the first known one";
  folder.write("tokenizer_config.json", R"({"eos_token": {"content": "<think>", "lstrip": false}})");
  EXPECT_EQ(of_folder(), 7);
  EXPECT_EQ(Tokenizer(byte_level().dump(), "test", folder.path).separator_id(), 7);
  EXPECT_EQ(Tokenizer(byte_level().dump(), "test").separator_id(), 6) << "its folder is not known";
  folder.write("tokenizer_config.json", R"({"eos_token": "<end>"})");
  EXPECT_EQ(of_folder(), -1) << "hf_to_shards.py refuses it";
  const char* record = R"({{"token_type": "uint16", "tokenizer": "tokenizer.json", "files": 1, "skipped_files": 0,
    "train": {{"documents": 1, "bytes": 1, "tokens": 1, "shards": []}}, "separator_id": {},
    "validation": {{"documents": 1, "bytes": 1, "tokens": 1, "shards": []}}}})";
  folder.write("dataset.json", fmt::format(fmt::runtime(record), 5));
  EXPECT_EQ(of_folder(), 5) << "documents of the data set end with it";
  folder.write("dataset.json", fmt::format(fmt::runtime(record), 9));
  EXPECT_EQ(of_folder(), -1) << "it is no token";
  for (const std::string& config : {std::string("[]"), std::string("{"), std::string(40, '[') + std::string(40, ']'),
                                    "{\"a\": " + std::string(40, '[') + std::string(40, ']') + "}"}) {
    folder.write("tokenizer_config.json", config);
    EXPECT_THROW(of_folder(), Failure) << config;
  }
}

TEST(TokenizerJson, AHoleIsNoToken) {
  Json json = byte_level();
  json["added_tokens"][0]["id"] = 20;
  EXPECT_EQ(Tokenizer(json.dump(), "test").vocab_size(), 21);
  EXPECT_EQ(decode(json, {0, 15, 20, 5}), "a!");
}

TEST(TokenizerJson, Refuses) {
  EXPECT_TRUE(test::has_facts(problem(""), {"JSON at byte 1"}));
  EXPECT_TRUE(test::has_facts(problem("[]"), {"not an object"}));
  EXPECT_TRUE(test::has_facts(problem("{}"), {"no model.vocab"}));
  EXPECT_TRUE(test::has_facts(problem(byte_level(), "/model/type", "WordPiece"), {"model", "not BPE"}));
  EXPECT_TRUE(test::has_facts(problem(byte_level(), "/model/vocab", Json::array({Json::array({"a", -1.5})})),
                              {"model.vocab", "not a map"}));
  EXPECT_TRUE(test::has_facts(problem(byte_level(), "/model/vocab", Json::object()), {"no model.vocab"}));
  for (const Json& id : {Json(-1), Json(0.5), Json("0"), Json(nullptr), Json::object(), Json::array()})
    EXPECT_TRUE(test::has_facts(problem(byte_level(), "/model/vocab/a", id), {"id", "model.vocab", "whole number"}))
        << id;
  EXPECT_TRUE(test::has_facts(problem(byte_level(), "/model/vocab/a", 1 << 20), {"model.vocab", "id of 2^20"}));
  EXPECT_TRUE(test::has_facts(problem(byte_level(), "/model/vocab/a", 5), {"two tokens", "model.vocab", "id 5"}));
  EXPECT_TRUE(test::has_facts(problem(byte_level(), "/model/vocab/" + std::string(4097, 'x'), 9), {"too long"}));
  std::string twice = byte_level().dump();
  twice.replace(twice.find("\"!\":5"), 5, "\"a\":5");
  EXPECT_TRUE(test::has_facts(problem(twice), {"twice in model.vocab"}));
  EXPECT_TRUE(test::has_facts(problem(R"({"model": {}, "model": {}})"), {"key", "twice", "level 1"}));
  EXPECT_TRUE(test::has_facts(problem(byte_level(), "/added_tokens/0/id", 7), {"two added tokens", "id 7"}));
  EXPECT_TRUE(test::has_facts(problem(byte_level(), "/added_tokens/0/id", 0), {"id 0", "model.vocab", "added_tokens"}));
  EXPECT_TRUE(test::has_facts(problem(byte_level(), "/added_tokens/0/id", -1), {"added token", "no id", "2^20"}));
  EXPECT_TRUE(test::has_facts(problem(byte_level(), "/added_tokens/0/special", 1), {"added token", "special"}));
  EXPECT_TRUE(test::has_facts(problem(byte_level(), "/added_tokens/0", Json::object()),
                              {"added token", "no id", "no content"}));
  EXPECT_TRUE(test::has_facts(problem(byte_level(), "/decoder", nullptr), {"no decoder"}));
  EXPECT_TRUE(test::has_facts(problem(byte_level(), "/decoder/type", "WordPiece"), {"decoder 'WordPiece'"}));
  EXPECT_TRUE(
      test::has_facts(problem(byte_fallback(), "/decoder/decoders/0/pattern", {{"Regex", "a"}}), {"Replace decoder"}));
  EXPECT_TRUE(test::has_facts(problem(byte_fallback(), "/decoder/decoders/3/stop", 1), {"Strip decoder", "end"}));
  EXPECT_TRUE(test::has_facts(problem(byte_fallback(), "/decoder/decoders/1", byte_fallback()["decoder"]),
                              {"decoders are nested"}));
  EXPECT_TRUE(
      test::has_facts(problem(R"({"x": )" + std::string(40, '[') + std::string(40, ']') + "}"), {"nested too deeply"}));
}

TEST(TokenizerJson, ValuesAreCountedUpToALimit) {
  const auto lists = [](int count) {  // of one value each
    std::string list;
    for (int i = 0; i < count; ++i) list += i ? ",[0]" : "[0]";
    return "[" + list + "]";
  };
  EXPECT_TRUE(test::has_facts(problem(R"({"decoder": )" + lists(600) + "}"), {"decoder", "1201 values", "1000"}));
  EXPECT_FALSE(test::has_facts(problem(R"({"decoder": )" + lists(499) + "}"), {"values"})) << "999";
  const int limit = 1 << 23;
  EXPECT_TRUE(test::has_facts(
      problem(R"({"merges": )" + lists(limit / 2) + R"(, "merges": 1, "model": {"vocab": {"a": -1, "b": []}}})"),
      {"it has", std::to_string(limit + 7) + " values", std::to_string(limit)}));
  EXPECT_FALSE(test::has_facts(problem(R"({"merges": )" + lists(limit / 2 - 1) + "}"), {"values"}));
}

TEST(Utf8, Unfinished) {
  for (const auto& [text, left] : {std::pair<const char*, std::size_t>{"", 0},
                                   {"a", 0},
                                   {"\xc3", 1},
                                   {"a\xc3", 1},
                                   {"\xc3\xa9", 0},
                                   {"\xe2\x82", 2},
                                   {"\xe2\x82\xac", 0},
                                   {"\xf0\x9f\x98", 3},
                                   {"\xf0\x9f\x98\x80", 0},
                                   {"\x80", 0},
                                   {"\x80\x80\x80\x80", 0},
                                   {"\xff", 0},
                                   {"\xc1", 0},
                                   {"\xc3\xa9\xf0", 1}})
    EXPECT_EQ(utf8_unfinished(text), left) << text;
}

}  // namespace
}  // namespace llmc
