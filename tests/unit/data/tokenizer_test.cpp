#include "data/tokenizer.h"

#include <gtest/gtest.h>
#include <sentencepiece_processor.h>

#include <bit>
#include <random>

#include "compiler/tools/dataset/train_tokenizer.h"
#include "data/tokenizer_model.h"
#include "data/vocabulary.h"
#include "files.h"
#include "source_text.h"
#include "text/utf8.h"

namespace llmc {
namespace {

const std::string& model() {
  static const std::string trained = [] {
    data::TextSample sample(1 << 20, 1);
    sample.add(test::source_text(1, 400));
    sample.add("<s> </s> <unk> <0x0A> a text that looks like tokens </s>\n");
    return data::train_tokenizer(sample.take(), 600);
  }();
  return trained;
}

const Tokenizer& tokenizer() {
  static const Tokenizer one(model(), "test");
  return one;
}

void expect_round_trip(const std::string& text) {
  const std::vector<std::int32_t> ids = tokenizer().encode(text);
  EXPECT_EQ(tokenizer().decode(ids), text);
  for (const std::int32_t id : ids) {
    ASSERT_GE(id, 2);  // neither unknown nor separator, for any text
    ASSERT_LT(id, tokenizer().vocab_size());
  }
}

TEST(Tokenizer, SourceCodeRoundTripsAndIsCompressed) {
  const std::string text = test::source_text(2, 300);
  expect_round_trip(text);
  EXPECT_TRUE(tokenizer().exact());
  EXPECT_GT(text.size(), 3 * tokenizer().encode(text).size());
}

/// A tokenizer model of at most `vocab_size` pieces for `text`.
std::string trained_on(const std::string& text, std::int64_t vocab_size) {
  data::TextSample sample(1 << 20, 1);
  sample.add(text);
  return data::train_tokenizer(sample.take(), vocab_size);
}

TEST(Tokenizer, SmallVocabulariesHaveTheirCharacters) {
  const std::string text = test::source_text(3, 200);
  for (const std::int64_t vocab_size : {380, 420}) {
    const Tokenizer small(trained_on(text, vocab_size), "small");
    EXPECT_LE(small.vocab_size(), vocab_size);
    EXPECT_EQ(small.decode(small.encode(text)), text);
    EXPECT_LT(small.encode(text).size(), text.size());
  }
  std::string many;  // 200 characters, all as frequent as the others
  for (int i = 0; i < 2000; ++i) {
    const int c = 0x400 + i % 200;
    many += {static_cast<char>(0xc0 | c >> 6), static_cast<char>(0x80 | (c & 0x3f))};
  }
  EXPECT_FAILS_WITH(trained_on(many, 320), "--vocab-size 455 or more");
  EXPECT_NO_THROW(trained_on(many, 455));
}

TEST(Tokenizer, OddTextRoundTrips) {
  using namespace std::string_literals;
  for (const std::string& text : {""s,
                                  " "s,
                                  "  "s,
                                  "\n"s,
                                  "\t\t\n\n  \n "s,
                                  "\0"s,
                                  "a\0b"s,
                                  "\r\n"s,
                                  "</s><s><unk>"s,
                                  "<0x41>"s,
                                  "\xe2\x96\x81"s,
                                  " \xe2\x96\x81 \xe2\x96\x81"s,
                                  "\xe2\x96\x85"s,
                                  "\xef\xbf\xbd"s,
                                  "\xff"s,
                                  "\xe2\x96"s,
                                  "\xe2\x96 x"s,
                                  "\xed\xa0\x80"s,
                                  "\xf4\x90\x80\x80"s,
                                  "\xc0\x80"s,
                                  "\xf0\x9f\x98\x80"s,
                                  "e\xcc\x81\xef\xb7\xba\xc2\xa0\xe3\x80\x80x"s,
                                  "\xef\xbb\xbftext"s,
                                  std::string(5000, ' '),
                                  std::string(5000, 'x'),
                                  std::string(3000, '\xe2'),
                                  "word " + std::string(70000, 'y') + " word"})
    expect_round_trip(text);
}

TEST(Tokenizer, RandomBytesRoundTrip) {
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    std::string text(random() % 400, '\0');
    for (char& byte : text) byte = static_cast<char>(random());
    expect_round_trip(text);
  }
}

TEST(Tokenizer, RandomMixturesOfTrickyPartsRoundTrip) {
  const std::vector<std::string> parts = {
      " ",     "  ", "\n",   "\t",     "\xe2\x96\x81",     "\xe2", "\x96", "\x81", "\xff", std::string(1, '\0'), "def",
      "größe", "シ", "</s>", "<0x0A>", "\xf0\x9f\x98\x80", "_",    "1"};
  std::mt19937 random(4);
  for (int i = 0; i < 500; ++i) {
    std::string text;
    for (unsigned n = random() % 300; n > 0; --n) text += parts[random() % parts.size()];
    expect_round_trip(text);
  }
}

TEST(Tokenizer, CuttingLongTextDoesNotChangeItsTokens) {
  // Encoding is additive at the start of a run of spaces: text much longer than a segment must equal the sum of its
  // lines.
  std::string text;
  std::vector<std::int32_t> expected;
  for (int i = 0; i < 200; ++i) {
    const std::string part =
        (i == 0 ? "x" : " x") + test::source_text(static_cast<unsigned>(i), 1).substr(0, 37 + i % 20);
    const std::string line = part.substr(0, part.find_last_not_of(' ') + 1);
    text += utf8_floor(line, line.size()) == line.size() && is_utf8(line) ? line : "";
    if (is_utf8(line)) {
      const auto ids = tokenizer().encode(line);
      expected.insert(expected.end(), ids.begin(), ids.end());
    }
  }
  ASSERT_GT(text.size(), 5000u);
  EXPECT_EQ(tokenizer().encode(text), expected);
}

/// Ids that sentencepiece gives the text in one call.
std::vector<std::int32_t> library_ids(const std::string& model, const std::string& text) {
  sentencepiece::SentencePieceProcessor processor;
  EXPECT_TRUE(processor.LoadFromSerializedProto(model).ok());
  std::vector<int> ids;
  EXPECT_TRUE(processor.Encode(text, &ids).ok());
  return {ids.begin(), ids.end()};
}

/// Words of 1 to 4 letters of an alphabet without blanks, of very different frequency.
std::string without_blanks(const std::vector<std::string>& alphabet, unsigned seed, std::size_t bytes) {
  std::mt19937 random(7);
  std::vector<std::string> words(500);
  for (std::string& word : words)
    for (unsigned n = 1 + random() % 4; n > 0; --n) word += alphabet[random() % alphabet.size()];
  random.seed(seed);
  std::string text;
  while (text.size() < bytes) text += words[random() % (1 + random() % words.size())];
  return text;
}

/// A character of three bytes.
std::string ideograph(int number) {
  const int c = 0x4e00 + number;
  return {static_cast<char>(0xe0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 0x3f)),
          static_cast<char>(0x80 | (c & 0x3f))};
}

TEST(Tokenizer, TextWithoutBlanksHasTheIdsOfTheLibrary) {
  std::vector<std::string> chinese, letters, bases = {"A", "C", "G", "T"};
  for (int i = 0; i < 200; ++i) chinese.push_back(ideograph(7 * i));
  for (char c = '+'; c <= 'z'; ++c) letters.emplace_back(1, c);
  for (const auto& alphabet : {chinese, letters, bases}) {
    const std::string trained = trained_on(std::string(500, ' ') + without_blanks(alphabet, 1, 60000), 1200);
    const Tokenizer own(trained, "own");
    for (const std::string& text :
         {without_blanks(alphabet, 2, 50000), "a " + without_blanks(alphabet, 3, 30000) + " b", std::string(20000, 'A'),
          std::string(5000, ' ') + alphabet[0], without_blanks(chinese, 4, 4000) + without_blanks(letters, 5, 4000)})
      EXPECT_EQ(own.encode(text), library_ids(trained, text)) << text.substr(0, 50);
  }
}

/// A length-delimited protobuf field.
std::string field(int number, const std::string& bytes) {
  std::string out(1, static_cast<char>(number << 3 | 2));
  for (std::size_t n = bytes.size();; n >>= 7) {
    out += static_cast<char>((n & 0x7f) | (n > 0x7f ? 0x80 : 0));
    if (n <= 0x7f) return out + bytes;
  }
}

/// A piece of a model, of the given type (1: normal, 4: user-defined).
std::string piece(const std::string& text, float score, char type) {
  std::string bits(4, '\0');
  for (int i = 0; i < 4; ++i)
    bits[static_cast<std::size_t>(i)] = static_cast<char>(std::bit_cast<unsigned>(score) >> 8 * i);
  return field(1, field(1, text) + '\x15' + bits + '\x18' + type);
}

TEST(Tokenizer, PiecesAcrossBlanksHaveTheIdsOfTheLibrary) {
  const std::string mark = "\xe2\x96\x81", long_word = std::string(1000, 'y') + "text";
  std::string text, long_words;
  while (text.size() < 20000) text += "def value in value of the text that def";
  while (long_words.size() < 20000) long_words += "def value of " + std::string(600, 'z') + long_word;
  for (const auto& [more, of] : {std::pair(piece("f" + mark, 10, 1) + piece("f" + mark + "v", 9, 1), text),
                                 {piece("t" + mark + "t", 0, 4), text},
                                 {piece(long_word, 0, 4), long_words}}) {
    const std::string odd = model() + more;
    EXPECT_EQ(Tokenizer(odd, "odd").encode(of), library_ids(odd, of));
  }
}

TEST(Tokenizer, TheEndOfATextMayDecideItsFirstToken) {
  // The pair of the last two characters is merged first, then the one before, so the tokens depend on the parity of
  // their number.
  constexpr int kCharacters = 2001;
  std::string chain = model(), text;
  for (int i = 0; i < kCharacters; ++i) {
    chain += piece(ideograph(i), -1, 1) + piece(ideograph(i) + ideograph(i + 1), static_cast<float>(i + 1), 1);
    text += ideograph(i);
  }
  const Tokenizer own(chain, "chain");
  for (const std::string& of : {text, text + ideograph(kCharacters), std::string(3000, 'x') + text + text})
    EXPECT_EQ(own.encode(of), library_ids(chain, of));
}

TEST(Tokenizer, OddBytesDoNotSpoilTheirNeighbours) {
  const std::size_t plain = tokenizer().encode("def value_count(index):").size();
  for (const std::string odd : {"\xe2\x96\x81", "\xff", "\xf0\x9f"})
    EXPECT_EQ(tokenizer().encode("def value_count(index):" + odd + "def value_count(index):").size(),
              2 * plain + odd.size());
}

TEST(Tokenizer, SeparatorIsNoText) {
  EXPECT_EQ(tokenizer().separator_id(), 1);
  EXPECT_EQ(tokenizer().decode(std::vector<std::int32_t>{1}), "");
  EXPECT_EQ(tokenizer().decode(std::vector<std::int32_t>{0}), "\xef\xbf\xbd");
  EXPECT_FAILS_WITH(tokenizer().decode(std::vector<std::int32_t>{-1}), "token -1");
  const std::int32_t size = tokenizer().vocab_size();
  EXPECT_FAILS_WITH(tokenizer().decode(std::vector<std::int32_t>{size}), "token " + std::to_string(size),
                    "vocabulary of " + std::to_string(size));
}

TEST(Tokenizer, FilesThatAreNone) {
  test::Folder folder;
  EXPECT_EQ(Tokenizer(folder.write("good.model", model())).vocab_size(), tokenizer().vocab_size());
  EXPECT_FAILS_WITH(Tokenizer(folder.write("empty.model", "")), "empty.model': has no pieces");
  EXPECT_FAILS_WITH(Tokenizer(folder.write("text.model", "once upon a time")), "text.model': ", "sentencepiece model");
  EXPECT_FAILS_WITH(Tokenizer(folder / "missing.model"), "missing.model': cannot be opened");
  EXPECT_FAILS_WITH(Tokenizer(folder.path), folder.path.string(), "regular file");
  folder.write("large.model", "");
  std::filesystem::resize_file(folder / "large.model", (64 << 20) + 1);
  EXPECT_FAILS_WITH(Tokenizer(folder / "large.model"), "has 67108865 bytes");
}

TEST(Tokenizer, EveryTruncationAndManyDamagesEndInAMessage) {
  for (std::size_t size = 0; size < model().size(); size += 1 + size / 50) {
    try {
      const Tokenizer cut(std::string_view(model()).substr(0, size), "cut");
      cut.decode(cut.encode("def value(x):\n"));  // a cut between two fields may leave a valid, smaller model
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code(), Exit::data);
    }
  }
  const std::string text = "def value(x):\n\t\xff" + without_blanks({"def", "value", "(", "x", "ü"}, 1, 3000);
  std::mt19937 random(5);
  int refused = 0;
  for (int i = 0; i < 300; ++i) {
    std::string damaged = model();
    for (unsigned n = 1 + random() % 4; n > 0; --n) damaged[random() % damaged.size()] = static_cast<char>(random());
    try {
      const Tokenizer odd(damaged, "damaged");
      odd.decode(odd.encode(text));
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code(), Exit::data);
      ++refused;
    }
  }
  EXPECT_GT(refused, 30);
}

TEST(TokenizerModel, RefusesWhatIsNotExactOrNotSafe) {
  EXPECT_EQ(check_tokenizer_model(model(), "x").pieces, tokenizer().vocab_size());
  EXPECT_TRUE(check_tokenizer_model(model(), "x").byte_fallback);
  // The library merges fields of a later copy of a message into the first, so it would see these.
  EXPECT_FAILS_WITH(check_tokenizer_model(model() + field(3, field(2, "table")), "x"), "normalises text");
  EXPECT_FAILS_WITH(check_tokenizer_model(model() + field(5, field(2, "table")), "x"), "normalises text");
  EXPECT_FAILS_WITH(check_tokenizer_model(model() + field(4, "x"), "x"), "self-tests");
  EXPECT_FAILS_WITH(check_tokenizer_model(model() + field(2, std::string("\x18\x01", 2)), "x"), "'x'", "BPE");
  EXPECT_FAILS_WITH(check_tokenizer_model(model() + field(1, field(1, std::string(5000, 'x'))), "x"),
                    "piece of 5000 bytes");
  EXPECT_FAILS_WITH(check_tokenizer_model(model() + "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "x"), "is damaged");
  const std::string prefix = model() + field(3, std::string("\x18\x01", 2));
  EXPECT_TRUE(check_tokenizer_model(prefix, "x").add_dummy_prefix);
  EXPECT_FALSE(Tokenizer(prefix, "x").exact());
}

TEST(TokenizerModel, AModelThatLosesLettersStillGivesThemBack) {
  // 'd' as a control piece (field 3 = 3): sentencepiece itself refuses every text that contains it.
  std::string odd = model();
  const std::size_t at = odd.find(field(1, "d") + '\x15');
  ASSERT_NE(at, std::string::npos);
  odd[at - 1] = static_cast<char>(odd[at - 1] + 2);
  odd.insert(at + 8, "\x18\x03", 2);
  const Tokenizer tokenizer(odd, "odd");
  EXPECT_TRUE(tokenizer.exact());
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("odd deeds done\n")), "odd deeds done\n");
}

TEST(Vocabulary, ANoteWhereItIsNotTheTokenizers) {
  const test::Folder folder;
  const std::string given = folder.write("given.model", model()), shards = folder / "set/train-*.bin";
  const std::int64_t tokens = tokenizer().vocab_size();
  EXPECT_EQ(vocabulary_note(tokens + 1, folder / "none.model", shards), "");
  EXPECT_EQ(vocabulary_note(tokens + 1, "", shards), "");  // no tokenizer next to the shards
  const std::string beside = folder.write("set/tokenizer.model", model());
  for (const auto& [tokenizer, file] : {std::pair(given, given), {"", beside}}) {
    EXPECT_EQ(vocabulary_note(tokens, tokenizer, shards), "");
    EXPECT_TRUE(test::has_facts(vocabulary_note(tokens + 7, tokenizer, shards),
                                {"model.vocab_size " + std::to_string(tokens + 7), std::to_string(tokens) + " tokens",
                                 "'" + file + "'", "7 rows", "embedding", "head"}));
    EXPECT_NE(vocabulary_note(tokens - 1, tokenizer, shards).find(" is below the "), std::string::npos);
  }
  EXPECT_EQ(vocabulary_note(tokens + 1, folder.write("damaged.model", model().substr(0, 1000)), shards), "");
}

TEST(Utf8, Boundaries) {
  for (const char* good : {"\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
                           "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"})
    EXPECT_EQ(utf8_length(good), std::string(good).size()) << good;
  // Continuations alone, overlong forms, surrogates, past U+10FFFF, cut short.
  for (const char* bad :
       {"", "\x80", "\xbf", "\xc0\xaf", "\xc1\xbf", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf", "\xed\xa0\x80", "\xed\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xc3", "\xe2\x82"})
    EXPECT_EQ(utf8_length(bad), 0u) << bad;
  EXPECT_TRUE(is_utf8("twelve bytes größe"));
  EXPECT_FALSE(is_utf8("twelve bytes gr\xc3"));
  EXPECT_EQ(utf8_floor("aß", 2), 1u);
  EXPECT_EQ(utf8_floor("aß", 3), 3u);
}

}  // namespace
}  // namespace llmc
