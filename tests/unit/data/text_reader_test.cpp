// Text of compressed files: whole, in several parts, cut short, damaged, and larger than it may be.
#include "compiler/tools/dataset/text_reader.h"

#include <gtest/gtest.h>

#include "compiler/tools/dataset/corpus.h"
#include "compressed.h"
#include "files.h"
#include "source_text.h"

namespace llmc::data {
namespace {

namespace fs = std::filesystem;
using test::Folder;
using test::gzip;
using test::zstd;

/// Reads a stream from memory, at most `step` bytes at once.
TextReader reader(std::string bytes, Compression compression, std::size_t step = 1 << 20,
                  std::size_t longest = kMostDecompressed) {
  auto at = std::make_shared<std::size_t>(0);
  return TextReader(
      [bytes = std::move(bytes), at, step](std::span<char> out) {
        const std::size_t count = std::min({out.size(), step, bytes.size() - *at});
        std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(*at), count, out.begin());
        *at += count;
        return count;
      },
      compression, "a.txt", longest);
}

std::vector<std::string> lines(TextReader reader) {
  std::vector<std::string> all;
  for (std::string line; reader.line(line);) all.push_back(line);
  return all;
}

class Compressed : public testing::TestWithParam<Compression> {
 protected:
  static std::string packed(const std::string& text) {
    return GetParam() == Compression::gzip ? gzip(text) : zstd(text);
  }
};

TEST_P(Compressed, TextAndLinesInAnyPieces) {
  std::string text = "\n";
  for (unsigned i = 0; i < 40; ++i) text += test::source_text(i, 4);
  for (const std::size_t step : {std::size_t{1}, std::size_t{7}, std::size_t{1} << 20}) {
    EXPECT_EQ(reader(packed(text), GetParam(), step).rest(), text);
    EXPECT_EQ(lines(reader(packed(text), GetParam(), step)), lines(reader(text, Compression::none)));
    // Files are often made of several members or frames, some of them empty.
    const std::string parts = packed("") + packed(text) + packed("") + packed("more\nlast") + packed("");
    EXPECT_EQ(reader(parts, GetParam(), step).rest(), text + "more\nlast");
    const std::string zeros(GetParam() == Compression::gzip ? 300 : 0, '\0');  // a member that fills a block
    EXPECT_EQ(reader(packed(text) + zeros + packed("more") + zeros, GetParam(), step).rest(), text + "more");
  }
  EXPECT_EQ(reader(packed(""), GetParam()).rest(), "");
  EXPECT_TRUE(lines(reader(packed(""), GetParam())).empty());
  const std::string zeros(10 << 20, '\0');  // far more text than one block
  EXPECT_EQ(reader(packed(zeros), GetParam()).rest(), zeros);
}

TEST_P(Compressed, ACutAtAnyByteIsAnError) {
  const std::string whole = packed(test::source_text(1, 4));
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_FAILS_WITH(reader(whole.substr(0, bytes), GetParam()).rest(), "'a.txt'", "was cut short") << bytes;
  // Also in a later part.
  EXPECT_FAILS_WITH(reader(whole + whole.substr(0, whole.size() / 2), GetParam()).rest(), "was cut short");
  TextReader cut = reader(packed("one\ntwo\n").substr(0, whole.size() - 1) + whole.substr(0, 20), GetParam());
  std::string line;
  EXPECT_TRUE(cut.line(line) && line == "one") << "lines before the end are read";
  EXPECT_TRUE(cut.line(line) && line == "two");
  EXPECT_FAILS_WITH(cut.line(line), "was cut short");
}

TEST_P(Compressed, AChangedByteNeverGivesOtherText) {
  const std::string text = test::source_text(2, 4), whole = packed(text);
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (const int bit : {1, 16, 128}) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ bit);
      try {
        EXPECT_EQ(reader(changed, GetParam()).rest(), text) << at;  // a time stamp, for example
      } catch (const Failure& failure) {
        EXPECT_EQ(failure.code(), Exit::data);
        EXPECT_TRUE(std::string(failure.what()).starts_with("'a.txt' ")) << failure.what();
      }
    }
  EXPECT_FAILS_WITH(reader(whole + "rest", GetParam()).rest(), "'a.txt' is damaged", "bytes of text");
}

TEST_P(Compressed, OtherDataAndLongDocumentsAreNamed) {
  EXPECT_FAILS_WITH(reader("plain text\n", GetParam()).rest(),
                    GetParam() == Compression::gzip ? "'a.txt' is not gzip data" : "'a.txt' is not Zstandard data");
  const std::string text = std::string(1000, 'x') + "\n" + std::string(1001, 'y');
  EXPECT_EQ(reader(packed(text), GetParam(), 1 << 20, 2002).rest(), text);
  EXPECT_FAILS_WITH(reader(packed(text), GetParam(), 1 << 20, 2001).rest(), "a document of more than 2001 bytes");
  EXPECT_EQ(lines(reader(packed(text), GetParam(), 1 << 20, 1001)).size(), 2u);
  EXPECT_FAILS_WITH(lines(reader(packed(text), GetParam(), 1 << 20, 1000)), "a document of more than 1000 bytes");
  EXPECT_EQ(reader(text, Compression::none, 1 << 20, 10).rest(), text) << "a file of text has a known size";
  EXPECT_FAILS_WITH(lines(reader(text, Compression::none, 1 << 20, 1000)), "'a.txt'", "a line of more than 1000 bytes");
}

INSTANTIATE_TEST_SUITE_P(TextReader, Compressed, testing::Values(Compression::gzip, Compression::zstd));

TEST(TextReader, AWindowThatTakesTooMuchMemoryIsNamed) {
  const std::string frame("\x28\xb5\x2f\xfd\x00\x90\x01\x00\x00", 9);  // an empty frame with a window of 256 MiB
  EXPECT_FAILS_WITH(reader(frame, Compression::zstd).rest(), "a window of more than 128 MiB", "zstd -dc --long=31");
}

TEST(TextReader, TheNameSaysTheCompression) {
  EXPECT_EQ(compression_of("a.jsonl.GZ"), Compression::gzip);
  EXPECT_EQ(compression_of("b/a.zst"), Compression::zstd);
  EXPECT_EQ(compression_of("a.gz/b.txt"), Compression::none);
  EXPECT_EQ(compression_of("gz"), Compression::none);
}

TEST(ForEachDocument, CompressedFilesAreReadAsTheirNamesSay) {
  Folder folder;
  folder.write("1.txt.gz", gzip("first\r\n"));
  folder.write("2.JSONL.Zst", zstd("{\"text\": \"second\"}\n{\"text\": 2}\n{\"text\": \"third\"}"));
  folder.write("3.txt.zst", zstd("latin \xe9"));
  folder.write("4.json.gz", gzip("[{\"text\": 1}]"));
  folder.write("5.jsonl.gz", "version https://git-lfs.github.com/spec/v1\noid sha256:cd\nsize 9\n");
  folder.write("6.tar.gz", gzip("no extension of text"));
  std::vector<std::string> texts;
  const auto visit = [&](std::string text) { texts.push_back(std::move(text)); };
  const CorpusFiles found = find_corpus_files({folder.path, folder / "4.json.gz"}, {});
  EXPECT_EQ(found.passed_over, (ExtensionCounts{{".gz", 1}}));
  const CorpusCounts counts = for_each_document(found.files, "text", visit);
  EXPECT_EQ(texts, (std::vector<std::string>{"first\r\n", "second", "third"}));
  EXPECT_EQ(counts.skipped_files, 3);
  ASSERT_EQ(counts.skipped.size(), 4u);
  EXPECT_EQ(counts.skipped[0].where, folder / "2.JSONL.Zst:2");
  EXPECT_TRUE(test::has_facts(counts.skipped[2].why, {"JSON array"}));
  EXPECT_TRUE(test::has_facts(counts.skipped[3].why, {"Git LFS"}));
  const std::string cut = folder.write("7.txt.gz", gzip("first\r\n").substr(0, 20));
  EXPECT_FAILS_WITH(for_each_document({fs::path(cut)}, "text", visit), "7.txt.gz' was cut short");
}

}  // namespace
}  // namespace llmc::data
