// Encoding with a tokenizer.json: words, merges, added tokens, exactness, and what is refused. Ids of whole texts are
// compared with the package `tokenizers` in tests/runs/tokenizer_ids.py.
#include <gtest/gtest.h>
#include <utf8proc.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "../facts.h"
#include "data/bpe/byte_characters.h"
#include "data/bpe/characters.h"
#include "data/bpe/merges.h"
#include "data/bpe/words.h"
#include "data/tokenizer.h"
#include "error.h"

namespace llmc {
namespace {

using Json = nlohmann::ordered_json;
using Ids = std::vector<std::int32_t>;

constexpr const char* kDigits3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::vector<std::string> words(std::string_view text, WordRule rule) {
  std::vector<std::string> found;
  while (!text.empty()) {
    const std::size_t length = word_length(text, rule);
    found.emplace_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return found;
}

using Words = std::vector<std::string>;

TEST(BpeWords, OfGpt2) {
  const auto split = [](std::string_view text) { return words(text, WordRule::gpt2); };
  EXPECT_EQ(split("It's 1234 don'T!?"), (Words{"It", "'s", " 1234", " don", "'", "T", "!?"}));
  EXPECT_EQ(split("a  b\n\n c   "), (Words{"a", " ", " b", "\n\n", " c", "   "}));
  EXPECT_EQ(split("\tx\xc2\xa0y"), (Words{"\t", "x", "\xc2\xa0", "y"}));
  EXPECT_EQ(split("\xe3\x80\x80\xe3\x80\x80z"), (Words{"\xe3\x80\x80", "\xe3\x80\x80", "z"}));
}

TEST(BpeWords, OfLlama3AndQwen) {
  const auto split = [](std::string_view text) { return words(text, WordRule::digits3); };
  EXPECT_EQ(split("It'S 1234 (don't)"), (Words{"It", "'S", " ", "123", "4", " (", "don", "'t", ")"}));
  EXPECT_EQ(split("a \r\n \n b;\r\nc"), (Words{"a", " \r\n \n", " b", ";\r\n", "c"}));
  EXPECT_EQ(split("\t\tx  y\n"), (Words{"\t", "\tx", " ", " y", "\n"}));
  EXPECT_EQ(split("'\xc5\xbf'\xc5\xbf"), (Words{"'\xc5\xbf", "'\xc5\xbf"}));
  EXPECT_EQ(words("1234", WordRule::digits1), (Words{"1", "2", "3", "4"}));
}

TEST(BpeWords, EveryRuleTakesEveryCharacter) {
  std::mt19937 draw(1);
  const std::array<std::string, 10> parts = {
      " ", "\n", "\r", "a", "7", "!", "'", "s", "\xe3\x80\x80", "\xf0\x9f\x91\x8d"};
  for (int run = 0; run < 2000; ++run) {
    std::string text;
    for (int i = 0; i < 12; ++i) text += parts[draw() % parts.size()];
    for (const WordRule rule : {WordRule::gpt2, WordRule::digits3, WordRule::digits1}) {
      std::string joined;
      for (const std::string& word : words(text, rule)) {
        ASSERT_FALSE(word.empty()) << text;
        joined += word;
      }
      EXPECT_EQ(joined, text);
    }
  }
}

TEST(BpeCharacters, Classes) {
  EXPECT_EQ(class_of(0x180e), CharacterClass::other);  // a space for PCRE2, but not for Unicode since 6.3
  EXPECT_EQ(class_of(0x85), CharacterClass::space);
  EXPECT_EQ(class_of(0x1c), CharacterClass::other);
  EXPECT_EQ(class_of(0x2160), CharacterClass::number);
  EXPECT_EQ(class_of(0x13460), CharacterClass::letter);  // Unicode 16
  EXPECT_EQ(class_of(0x1e5f1), CharacterClass::number);
  EXPECT_EQ(class_of(0x10ffff), CharacterClass::other);
  EXPECT_EQ(to_nfc("e\xcc\x81"), "\xc3\xa9");
  EXPECT_EQ(to_nfc("\xea\xb0\x80\xe1\x86\xa7\xe1\x84\x80\xe1\x85\xa1"), "\xea\xb0\x80\xe1\x86\xa7\xea\xb0\x80");
}

TEST(BpeCharacters, MarksAreOrderedAsUtf8procOrdersThem) {
  std::mt19937 draw(5);
  const std::array<std::string, 12> parts = {"e",        "\xcc\x81",     "\xcc\x96",     "\xcc\xa7",
                                             "\xc3\xa9", "\xcd\x84",     "\xe0\xbd\xb3", "\xe0\xbd\xb1",
                                             "\xcd\xa2", "\xea\xb0\x80", "\xe1\x86\xa8", "\xf0\x9d\x85\xa0"};
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    for (std::size_t part = draw() % 12; part > 0; --part) text += parts[draw() % parts.size()];
    utf8proc_uint8_t* made = utf8proc_NFC(reinterpret_cast<const utf8proc_uint8_t*>(text.c_str()));
    EXPECT_EQ(to_nfc(text), reinterpret_cast<const char*>(made));
    std::free(made);
  }
  std::string marks = "e";
  for (int i = 0; i < 500'000; ++i) marks += "\xcc\x81\xcc\x96";
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(to_nfc(marks).size(), marks.size() - 1);  // the e and its first acute are one character of two bytes
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST(BpeMerges, LowestRankFirstThenLeftmost) {
  MergeTable table(3);
  table.set(1, 1, 1, 2);
  table.set(1, 2, 0, 3);
  table.set(2, 2, 2, 4);
  MergeTable::Scratch scratch;
  const auto merged = [&](Ids ids) {
    table.apply(ids, scratch);
    return ids;
  };
  EXPECT_EQ(merged({}), Ids{});
  EXPECT_EQ(merged({1}), Ids{1});
  EXPECT_EQ(merged({1, 1}), Ids{2});
  EXPECT_EQ(merged({1, 1, 1}), (Ids{2, 1}));
  EXPECT_EQ(merged({1, 1, 1, 1}), Ids{4});
  EXPECT_EQ(merged({1, 2, 1}), (Ids{3, 1}));
  EXPECT_EQ(merged({1, 1, 2}), (Ids{1, 3}));
}

TEST(BpeMerges, LongWordsTakeNoQuadraticTime) {
  MergeTable table(1);
  table.set(1, 1, 0, 2);
  MergeTable::Scratch scratch;
  const auto seconds = [&](std::size_t count) {
    Ids ids(count, 1);
    const auto start = std::chrono::steady_clock::now();
    table.apply(ids, scratch);
    EXPECT_EQ(ids.size(), count / 2);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  seconds(1000);
  EXPECT_LT(seconds(1'000'000), 30);  // 0.2 s were measured; a scan of the word for each merge takes hours
}

/// A byte-level tokenizer: ids 0 to 255 are bytes, then come "he", "ll", "hell" and " w", then added tokens.
Json on_bytes() {
  Json vocabulary = Json::object();
  for (int byte = 0; byte < 256; ++byte) vocabulary[character_of_byte(static_cast<unsigned char>(byte))] = byte;
  const std::string blank = character_of_byte(' ');
  for (const std::string& token : {std::string("he"), std::string("ll"), std::string("hell"), blank + "w"})
    vocabulary[token] = vocabulary.size();
  return {
      {"added_tokens",
       {{{"id", 260}, {"content", "<|endoftext|>"}, {"special", true}, {"normalized", false}},
        {{"id", 261}, {"content", "<think>"}, {"special", false}, {"normalized", false}}}},
      {"normalizer", nullptr},
      {"pre_tokenizer",
       {{"type", "Sequence"},
        {"pretokenizers",
         {{{"type", "Split"}, {"pattern", {{"Regex", kDigits3}}}, {"behavior", "Isolated"}, {"invert", false}},
          {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}}},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model",
       {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", {"h e", Json::array({"l", "l"}), "he ll", blank + " w"}}}}};
}

/// A tokenizer on characters, as Llama 2's: id 0 is <unk>, 1 to 256 are bytes, then come "▁", "a", "▁a" and "a▁".
Json on_characters() {
  Json vocabulary = {{"<unk>", 0}};
  for (int byte = 0; byte < 256; ++byte) {
    std::array<char, 8> name;
    std::snprintf(name.data(), name.size(), "<0x%02X>", byte);
    vocabulary[name.data()] = byte + 1;
  }
  for (const char* token : {"▁", "a", "▁a", "</s>"}) vocabulary[token] = vocabulary.size();
  return {
      {"added_tokens", {{{"id", 260}, {"content", "</s>"}, {"special", true}, {"normalized", false}}}},
      {"normalizer",
       {{"type", "Sequence"},
        {"normalizers",
         {{{"type", "Prepend"}, {"prepend", "▁"}},
          {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}}}}},
      {"pre_tokenizer", nullptr},
      {"decoder",
       {{"type", "Sequence"},
        {"decoders",
         {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
          {{"type", "ByteFallback"}},
          {{"type", "Fuse"}}}}}},
      {"model",
       {{"type", "BPE"}, {"byte_fallback", true}, {"unk_token", "<unk>"}, {"vocab", vocabulary}, {"merges", {"▁ a"}}}}};
}

Json changed(Json json, const std::string& pointer, const Json& value) {
  json[Json::json_pointer(pointer)] = value;
  return json;
}

Ids encode(const Json& json, std::string_view text) { return Tokenizer(json.dump(), "test").encode(text); }

std::string random_bytes(std::mt19937& draw, std::size_t count) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes += static_cast<char>(draw());
  return bytes;
}

TEST(BpeEncoder, ByteLevel) {
  const Json json = on_bytes();
  EXPECT_EQ(encode(json, ""), Ids{});
  EXPECT_EQ(encode(json, "hello world"), (Ids{258, 'o', 259, 'o', 'r', 'l', 'd'}));
  EXPECT_EQ(encode(json, "he ll"), (Ids{256, ' ', 257}));
  EXPECT_EQ(encode(json,
                   "\xff"
                   "he"),
            (Ids{0xff, 256}));  // no UTF-8
  EXPECT_TRUE(Tokenizer(json.dump(), "test").exact());
  EXPECT_EQ(Tokenizer(json.dump(), "test").separator_id(), 260);
}

TEST(BpeEncoder, TextNeverBecomesASpecialToken) {
  const Json json = on_bytes();
  const Ids ids = encode(json, "a<|endoftext|>b<think>c");
  EXPECT_EQ(std::ranges::count(ids, 260), 0);
  EXPECT_EQ(std::ranges::count(ids, 261), 1);
  EXPECT_EQ(Tokenizer(json.dump(), "test").decode(ids), "a<|endoftext|>b<think>c");
  // A special token of the vocabulary, to which a whole word would be equal.
  Json whole = changed(changed(json, "/model/ignore_merges", true), "/model/vocab/hello", 262);
  EXPECT_EQ(encode(whole, "hello"), Ids{262});
  whole["added_tokens"].push_back({{"id", 262}, {"content", "hello"}, {"special", true}});
  EXPECT_EQ(encode(whole, "hello"), (Ids{258, 'o'}));
  // Merges that spell one.
  Json spelled = json;
  spelled["added_tokens"].push_back({{"id", 258}, {"content", "hell"}, {"special", true}});
  EXPECT_EQ(encode(spelled, "hello"), (Ids{256, 257, 'o'}));
}

TEST(BpeEncoder, AddedTokensTakeWhiteSpaceAsTheFileSays) {
  Json json = on_bytes();
  json["added_tokens"].push_back({{"id", 262}, {"content", "<th"}, {"normalized", false}});
  EXPECT_EQ(encode(json, "a <think> <thin"), (Ids{'a', ' ', 261, ' ', 262, 'i', 'n'}));  // the longest
  json = changed(changed(json, "/added_tokens/1/lstrip", true), "/added_tokens/1/rstrip", true);
  EXPECT_EQ(encode(json, "a \xe3\x80\x80<think>\n\tb"), (Ids{'a', 261, 'b'}));
  EXPECT_FALSE(Tokenizer(json.dump(), "test").exact());
}

/// White space that a token took may begin another one, as in the package.
TEST(BpeEncoder, AddedTokensBeginInTheWhiteSpaceOfTheLast) {
  Json json = on_bytes();
  json["added_tokens"].push_back({{"id", 262}, {"content", " a"}, {"normalized", false}, {"rstrip", true}});
  EXPECT_EQ(encode(json, "1  a  aab"), (Ids{'1', ' ', 262, 262, 'a', 'b'}));
  json["added_tokens"].push_back({{"id", 263}, {"content", "\n"}, {"normalized", false}});
  EXPECT_EQ(encode(json, " a\n  b"), (Ids{262, 263, ' ', ' ', 'b'}));
}

TEST(BpeEncoder, BytesComeBack) {
  const Tokenizer tokenizer(on_bytes().dump(), "test");
  std::mt19937 draw(3);
  for (int i = 0; i < 300; ++i) {
    std::string text = random_bytes(draw, draw() % 100) + "hello <think>" + random_bytes(draw, draw() % 100);
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
}

TEST(BpeEncoder, NormalisedTextIsNotExact) {
  const Json json = changed(on_bytes(), "/normalizer", {{"type", "NFC"}});
  EXPECT_EQ(encode(json, "e\xcc\x81"), (Ids{0xc3, 0xa9}));
  EXPECT_FALSE(Tokenizer(json.dump(), "test").exact());
}

TEST(BpeEncoder, OnCharacters) {
  const Json json = on_characters();
  EXPECT_EQ(encode(json, "a a"), (Ids{259, 259}));
  EXPECT_EQ(encode(json, " a\n"), (Ids{257, 259, '\n' + 1}));
  EXPECT_EQ(encode(json, "\xc3\xa9"), (Ids{257, 0xc3 + 1, 0xa9 + 1}));
  EXPECT_EQ(encode(json, "</s>").size(), 5u);
  const Tokenizer tokenizer(json.dump(), "test");
  EXPECT_FALSE(tokenizer.exact());
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("a\xff b")), " a\xff  b");  // both parts get a blank
  Json special = json;                                                    // a character that is a special token
  special["added_tokens"].push_back({{"id", 258}, {"content", "a"}, {"special", true}, {"normalized", false}});
  EXPECT_EQ(encode(special, "a"), (Ids{257, 'a' + 1}));
  const auto metaspace = [&](const char* scheme, bool split) {
    return changed(changed(json, "/normalizer", nullptr), "/pre_tokenizer",
                   {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", scheme}, {"split", split}});
  };
  EXPECT_EQ(encode(metaspace("never", true), "a  a"), (Ids{258, 257, 259}));
  EXPECT_EQ(encode(metaspace("first", false), "a a"), (Ids{259, 259}));
  Json first = metaspace("first", false), always = metaspace("always", true);
  for (Json* each : {&first, &always})
    (*each)["added_tokens"].push_back({{"id", 261}, {"content", "<x>"}, {"normalized", false}});
  EXPECT_EQ(encode(first, "a<x>a"), (Ids{259, 261, 258}));
  EXPECT_EQ(encode(always, "a<x>a"), (Ids{259, 261, 259}));
}

TEST(BpeEncoder, MergesAcrossBlanksAreKept) {
  Json json = on_characters();
  json["model"]["vocab"]["a▁"] = 261;
  json["model"]["merges"] = {"a ▁", "▁ a"};
  EXPECT_EQ(encode(json, "a a"), (Ids{257, 261, 258}));
}

TEST(BpeEncoder, ThreadsShareATokenizer) {
  const Tokenizer tokenizer(on_bytes().dump(), "test");
  std::string text;
  for (int i = 0; i < 20000; ++i) text += "hello " + std::to_string(i) + " ";
  const Ids expected = tokenizer.encode(text);
  std::array<bool, 4> equal;
  {
    std::vector<std::jthread> threads;
    for (bool& each : equal) threads.emplace_back([&] { each = tokenizer.encode(text) == expected; });
  }
  EXPECT_EQ(equal, (std::array<bool, 4>{true, true, true, true}));
}

TEST(BpeEncoder, NamesWhatItDoesNotSupport) {
  const auto why = [](const Json& json) {
    const Tokenizer tokenizer(json.dump(), "test");
    EXPECT_FALSE(tokenizer.encodes());
    EXPECT_THROW(tokenizer.encode("a"), Failure);
    return tokenizer.why_not_encodes();
  };
  const auto says = [&](const Json& base, const std::string& pointer, const Json& value, const char* fact) {
    EXPECT_TRUE(test::has_facts(why(changed(base, pointer, value)), {fact}));
  };
  const Json bytes = on_bytes(), characters = on_characters();
  says(bytes, "/normalizer", {{"type", "NFKC"}}, "normalizer 'NFKC'");
  says(bytes, "/normalizer", {{"type", "Sequence"}, {"normalizers", {{{"type", "Lowercase"}}}}}, "'Lowercase'");
  says(bytes, "/normalizer", {{"type", "Replace"}, {"pattern", {{"Regex", "a"}}}, {"content", ""}}, "plain text");
  says(bytes, "/pre_tokenizer", {{"type", "Digits"}}, "pre-tokenizer 'Digits'");
  says(bytes, "/pre_tokenizer/pretokenizers/0/pattern/Regex", "\\w+", "'\\w+'");
  says(bytes, "/pre_tokenizer/pretokenizers/0/behavior", "Removed", "Isolated");
  says(bytes, "/pre_tokenizer/pretokenizers/1/use_regex", true, "neither splits nor adds a blank");
  says(bytes, "/pre_tokenizer/pretokenizers/0", {{"type", "Punctuation"}}, "'Punctuation'");
  says(bytes, "/pre_tokenizer", nullptr, "neither a ByteLevel pre-tokenizer nor byte_fallback");
  says(bytes, "/model/end_of_word_suffix", "</w>", "end_of_word_suffix");
  says(bytes, "/model/dropout", 0.1, "dropout");
  says(bytes, "/model/merges/0", "h e l", "merges");
  says(bytes, "/model/merges/1", Json::array({"l"}), "merges");
  says(bytes, "/model/merges/1", Json::array({"l", "l", "l"}), "merges");
  says(bytes, "/model/merges/1", 7, "merges");
  says(bytes, "/model/merges/0", "h l", "merge of 'h' and 'l'");
  says(bytes, "/added_tokens/1/single_word", true, "'<think>'");
  says(characters, "/pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "ab"}}, "Metaspace");
  says(characters, "/pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "sometimes"}},
       "prepend_scheme");
  says(characters, "/pre_tokenizer", {{"type", "Split"}, {"pattern", {{"String", "a"}}}}, "ByteLevel");
  const auto replace = [](const std::string& from, const std::string& to) {
    return Json{{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
  };
  const auto sequence = [&](std::size_t count, const Json& step) {
    return Json{{"type", "Sequence"}, {"normalizers", std::vector<Json>(count, step)}};
  };
  says(bytes, "/normalizer", sequence(17, replace("a", "b")), "more than 16 normalizers");
  says(bytes, "/normalizer", replace(std::string(4000, 'a'), std::string(4097, 'b')), "4097 bytes");
  says(bytes, "/normalizer", replace("a", std::string(65, 'b')), "64 times");
  says(bytes, "/normalizer", sequence(2, replace("a", "aaaaaaaaa")), "64 times");
  // A token without characters would be found at every place, for ever.
  Json removed = changed(bytes, "/normalizer", replace("<think>", ""));
  removed["added_tokens"][1]["normalized"] = true;
  EXPECT_TRUE(test::has_facts(why(removed), {"'<think>' (id 261)", "normalisation"}));
  Json lacks = bytes;
  lacks["model"]["vocab"].erase("a");
  EXPECT_TRUE(test::has_facts(why(lacks), {"byte 0x61"}));
  Json other = bytes;
  other["added_tokens"].push_back({{"id", 300}, {"content", "hell"}});
  EXPECT_TRUE(test::has_facts(why(other), {"'hell'", "300", "258"}));
}

}  // namespace
}  // namespace llmc
