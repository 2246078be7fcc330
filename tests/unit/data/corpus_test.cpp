#include "compiler/tools/dataset/corpus.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/tools/dataset/split.h"
#include "compiler/tools/dataset/train_tokenizer.h"
#include "files.h"

namespace llmc::data {
namespace {

using test::Folder;
namespace fs = std::filesystem;

std::vector<std::string> names(const Folder& folder, const std::vector<std::string>& globs) {
  std::vector<std::string> found;
  for (const fs::path& path : find_corpus_files({folder.path}, globs).files)
    found.push_back(fs::relative(path, folder.path).string());
  return found;
}

TEST(FindCorpusFiles, ExtensionsGlobsHiddenAndLinks) {
  Folder folder;
  for (const char* name : {"b.py", "a/c.txt", "a/d.bin", "a/e.jsonl", ".git/f.py", ".hidden.py", "a/Makefile"})
    folder.write(name, "x");
  fs::create_directory_symlink(folder.path, folder.path / "loop");
  EXPECT_EQ(names(folder, {}), (std::vector<std::string>{"a/c.txt", "a/e.jsonl", "b.py"}));
  EXPECT_EQ(names(folder, {"*.bin", "Make*"}), (std::vector<std::string>{"a/Makefile", "a/d.bin"}));
  EXPECT_FAILS_WITH(find_corpus_files({folder / "missing"}, {}), "missing' does not exist");
  const auto linked = [](const std::vector<fs::path>& from) {
    const CorpusFiles found = find_corpus_files(from, {});
    return std::vector<std::string>(found.linked_directories.begin(), found.linked_directories.end());
  };
  EXPECT_EQ(linked({folder.path}), std::vector<std::string>{folder / "loop"});
  EXPECT_EQ(linked({folder.path, folder.path / "loop/"}), std::vector<std::string>{folder / "loop/loop"});
  EXPECT_TRUE(test::has_facts(linked_text({"web", "zoo"}), {"2 linked directories", "'web', ...", "--from"}));
  fs::create_directory(folder.path / "only");
  fs::create_directory_symlink(folder.path, folder.path / "only/link");
  EXPECT_FAILS_WITH(find_corpus_files({folder.path / "only"}, {}), "only/link'", "--from");
  // A file given by name is taken whatever its extension, and only once.
  EXPECT_EQ(find_corpus_files({folder / "a/d.bin", folder / "a/../a/d.bin"}, {}).files.size(), 1u);
}

TEST(FindCorpusFiles, AFileIsReadOnceInAnyNotation) {
  Folder folder;
  for (const char* name : {"a.txt", "b.none"}) folder.write(name, "x");
  fs::create_directory_symlink(folder.path, folder.path / "link");
  const fs::path relative = fs::relative(folder.path);
  const CorpusFiles found =
      find_corpus_files({folder.path, relative, folder.path / "b.none", relative / "link", relative / "."}, {});
  EXPECT_EQ(found.files, (std::vector<fs::path>{relative / "a.txt", relative / "link/a.txt", folder.path / "b.none"}));
  EXPECT_EQ(found.passed_over, (ExtensionCounts{{".none", 1}})) << "of the link";
  EXPECT_EQ(found.linked_directories, std::vector<fs::path>{relative / "link/link"});
}

TEST(FindCorpusFiles, TheFolderThatCannotBeListedIsNamed) {
  Folder folder;
  folder.write("a/b/c.txt", "x");
  fs::permissions(folder.path, fs::perms::all);
  fs::permissions(folder.path / "a/b", fs::perms::none);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && ::seteuid(65534) != 0) ::_exit(2);  // root may list it
    EXPECT_FAILS_WITH(find_corpus_files({folder.path}, {}), "a/b': ", "--from");
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  fs::permissions(folder.path / "a/b", fs::perms::owner_all);
}

TEST(FindCorpusFiles, WhatIsPassedOverIsCountedByExtension) {
  Folder folder;
  for (const char* name : {"a.TXT", "b.parquet", "c/d.parquet", "c/E.GZ", "c/Makefile", "c/.hidden.gz", "c/f.csv"})
    folder.write(name, "x");
  EXPECT_EQ(names(folder, {}), std::vector<std::string>{"a.TXT"}) << "extensions are known in either case";
  // A folder given twice is searched once, and a file given by name is read.
  EXPECT_EQ(find_corpus_files({folder.path, folder / "c", folder / "c/f.csv"}, {}).passed_over,
            (ExtensionCounts{{".parquet", 2}, {".gz", 1}, {"", 1}}));
  EXPECT_EQ(find_corpus_files({folder.path}, {"*.csv"}).passed_over.size(), 4u);
  // Without a file to read, the message lists the skipped ones.
  EXPECT_FAILS_WITH(find_corpus_files({folder / "c"}, {}), "4 files", "(.csv 1, .gz 1, .parquet 1, no extension 1)",
                    "--glob");
  EXPECT_FAILS_WITH(find_corpus_files({folder.path}, {"*.none"}), "(.parquet 2, .csv 1, .gz 1, .txt 1, no extens");
  Folder empty;
  empty.write(".hidden.txt", "x");
  EXPECT_FAILS_WITH(find_corpus_files({empty.path}, {}), "only hidden ones");
}

TEST(FindCorpusFiles, ManyExtensionsAreCutShort) {
  EXPECT_EQ(passed_over_text({{".gz", 1}}), "1 file excluded by its name (.gz 1)");
  ExtensionCounts many;
  for (int i = 0; i < 11; ++i) many[fmt::format(".{:02}", i)] = i + 1;
  EXPECT_EQ(passed_over_text(many),
            "66 files excluded by their names (.10 11, .09 10, .08 9, .07 8, .06 7, .05 6, .04 5, .03 4 and 3 "
            "more)");
}

TEST(ForEachDocument, TextJsonlAndWhatIsSkipped) {
  Folder folder;
  folder.write("1.txt", "first\r\n");
  folder.write(
      "2.jsonl",
      "{\"id\": [1, {\"text\": 2}], \"text\": \"se\\u0063ond\\n\"}\n\n  \r\n{\"text\":\"\"}\n{\"text\": \"third\"}");
  folder.write("3.txt", "latin \xe9");
  folder.write("4.txt", std::string("nul \0", 5));
  folder.write("5.txt", "");
  std::vector<std::string> texts;
  folder.write("6.txt", "version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 9\n");
  folder.write("7.jsonl", "version https://git-lfs.github.com/spec/v1\noid sha256:cd\nsize 9\n");
  const CorpusCounts counts = for_each_document(find_corpus_files({folder.path}, {}).files, "text",
                                                [&](std::string text) { texts.push_back(std::move(text)); });
  EXPECT_EQ(texts, (std::vector<std::string>{"first\r\n", "second\n", "third"}));
  EXPECT_EQ(counts.files, 7);
  EXPECT_EQ(counts.skipped_files, 4);
  EXPECT_EQ(counts.skipped_lines, 0);
  ASSERT_EQ(counts.skipped.size(), 4u);
  EXPECT_TRUE(test::has_facts(counts.skipped[2].why, {"Git LFS", "`git lfs pull`"}));
  EXPECT_EQ(counts.skipped[3].where, folder / "7.jsonl");
  EXPECT_EQ(counts.documents, 3);
  EXPECT_EQ(counts.bytes, 19);
}

TEST(ForEachDocument, BadLinesAreSkippedAndNamed) {
  Folder folder;
  const std::string path = folder.write(
      "a.jsonl", "{\"text\": \"ok\"}\n{\"txt\": \"typo\"}\n{\"text\": \"cu\n{\"text\": 7}\n{\"text\": \"end\"}\n");
  std::vector<std::string> texts;
  const auto visit = [&](std::string text) { texts.push_back(std::move(text)); };
  const CorpusCounts counts = for_each_document({path}, "text", visit);
  EXPECT_EQ(texts, (std::vector<std::string>{"ok", "end"}));
  EXPECT_EQ(counts.skipped_lines, 3);
  EXPECT_EQ(counts.skipped_files, 0);
  EXPECT_EQ(counts.documents, 2);
  ASSERT_EQ(counts.skipped.size(), 3u);
  EXPECT_EQ(counts.skipped[0].where, path + ":2");
  EXPECT_TRUE(test::has_facts(counts.skipped[0].why, {"no 'text'", "'txt'", "--text-field"}));
  EXPECT_EQ(counts.skipped[1].where, path + ":3");
  EXPECT_TRUE(test::has_facts(counts.skipped[2].why, {"'text'", "not a string"}));
  texts.clear();
  EXPECT_EQ(for_each_document({path}, "txt", visit).skipped_lines, 4);
  EXPECT_EQ(texts, std::vector<std::string>{"typo"});
}

TEST(ForEachDocument, RecordsInAJsonFileAreNoText) {
  Folder folder;
  const std::vector<fs::path> files = {folder.write("array.json", " [\n {\"text\": \"one\"}]"),
                                       folder.write("lines.JSON", "{\"text\": \"one\"}\n{\"text\": 2}\n"),
                                       folder.write("array.txt", "[{\"text\": \"one\"}]"),
                                       folder.write("lines.txt", "{\"text\": \"one\"}\n\n{\"text\": \"two\"}\n"),
                                       folder.write("line", "\n{\"text\": \"one\"}"),
                                       folder.write("code.py", "[{\"text\": 1}][0]"),
                                       folder.write("prose.md", "{\"text\": \"one\"}\nis a record"),
                                       folder.write("config.json", "{\"name\": \"a\"}"),
                                       folder.write("numbers.json", "[1, 2]")};
  std::vector<std::string> texts;
  const CorpusCounts counts =
      for_each_document(files, "text", [&](std::string text) { texts.push_back(std::move(text)); });
  EXPECT_EQ(texts, (std::vector<std::string>{"[{\"text\": 1}][0]", "{\"text\": \"one\"}\nis a record",
                                             "{\"name\": \"a\"}", "[1, 2]"}));
  ASSERT_EQ(counts.skipped.size(), 5u);
  EXPECT_EQ(counts.skipped_files, 5);
  for (const std::size_t array : {0, 2})
    EXPECT_TRUE(test::has_facts(counts.skipped[array].why, {"JSON array", ".jsonl"}));
  for (const std::size_t lines : {1, 3, 4})
    EXPECT_TRUE(test::has_facts(counts.skipped[lines].why, {"JSON objects", "'text'", ".jsonl"}));
}

TEST(ForEachDocument, EveryNameOfJsonLines) {
  Folder folder;
  const std::string lines = "\n{\"text\": \"one\"}\n{\"other\": 2}\n";
  for (const char* name : {"a.jsonl", "b.NDJSON", "c.jsonlines", "d.jl"}) folder.write(name, lines);
  folder.write("e.jl", "# Julia\n{}\n");
  folder.write("f.jl", "");
  folder.write("g.jl.gz", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
  std::vector<std::string> texts;
  const CorpusCounts counts = for_each_document(find_corpus_files({folder.path}, {}).files, "text",
                                                [&](std::string text) { texts.push_back(std::move(text)); });
  EXPECT_EQ(texts, (std::vector<std::string>{"one", "one", "one", "one", "# Julia\n{}\n"}));
  EXPECT_EQ(counts.skipped_lines, 4);
  EXPECT_EQ(counts.skipped_files, 1);
}

/// Of data whose name does not tell their format nothing is lost silently.
TEST(ForEachDocument, OtherFormatsUnderANameOfTextAreRefused) {
  Folder folder;
  const auto read = [&](const std::string& name, const std::string& bytes) {
    for_each_document({folder.write(name, bytes)}, "text", [](const std::string&) {});
  };
  const std::string gzip("\x1f\x8b\x08\0\0", 5), zstd("\x28\xb5\x2f\xfd\x04\0", 6), zip("PK\x03\x04\x14\0", 6);
  EXPECT_FAILS_WITH(read("a.jsonl", gzip), folder / "a.jsonl' is a gzip file", "end in .gz", "`zcat FILE | llmc");
  EXPECT_FAILS_WITH(read("a.txt", zstd), folder / "a.txt' is a Zstandard file", "end in .zst", "unpack it");
  EXPECT_FAILS_WITH(read(kStandardInputCopy, gzip), "standard input is a gzip file", "use `zcat FILE | llmc");
  EXPECT_FAILS_WITH(read("a.parquet", "PAR1\x15\x04"), "a Parquet file", "tokens/parquet_lines.py");
  EXPECT_FAILS_WITH(read("a.jsonl", zip), "a ZIP archive", "`unzip -p FILE | llmc");
  EXPECT_NO_THROW(read("a.docx", zip)) << "--glob '*' finds such files";
  EXPECT_NO_THROW(read("a.txt", "PAR1 of the book"));
}

TEST(TextOfJson, RefusesWhatIsAmbiguous) {
  EXPECT_EQ(text_of_json(R"({"text":"a\u00e9","n":1e3})", "text"), "a\xc3\xa9");
  EXPECT_EQ(text_of_json(R"({"a":NaN,"b":[-Infinity,Infinity],"text":"NaN \\\" Infinity"})", "text"),
            "NaN \\\" Infinity");
  EXPECT_FAILS_WITH(text_of_json(R"({"text":NaN})", "text"), "'text'", "not a string");
  EXPECT_FAILS_WITH(text_of_json(R"({"text":"a","b":Nothing})", "text"), "is not JSON at byte");
  const std::pair<const char*, test::Facts> bad[] = {{"{\"text\": 5}", "not a string"},
                                                     {"{\"text\": [\"a\"]}", "not a string"},
                                                     {"{\"text\": null}", "not a string"},
                                                     {"[{\"text\": \"a\"}]", "an array"},
                                                     {"\"text\"", "a single value"},
                                                     {"{\"text\": \"a\", \"text\": \"b\"}", "two 'text' fields"},
                                                     {"{\"text\": \"a\"", {"not JSON", "byte 13"}},
                                                     {"{\"text\": \"a\"} x", {"not JSON", "byte 15"}},
                                                     {"{\"text\": \"\xff\"}", {"not JSON", "byte 11"}},
                                                     {"{\"a\": {\"text\": \"a\"}}", "no 'text' field"}};
  for (const auto& [line, what] : bad) EXPECT_FAILS_WITH(text_of_json(line, "text"), what);
  EXPECT_FAILS_WITH(text_of_json("{\"body\": 5}", "body"), "'body'", "not a string");
  // Deep nesting must not use stack.
  EXPECT_FAILS_WITH(text_of_json("{\"a\":" + std::string(1000000, '['), "text"), "is not JSON");
}

TEST(Split, IsByContentAndLeavesNoSideEmpty) {
  const auto sides = [](int documents, double fraction, std::uint64_t seed = 1) {
    Split split(fraction, seed);
    for (int i = 0; i < documents; ++i) split.add("document " + std::to_string(i));
    split.finish();
    int validation = 0;
    for (int i = 0; i < documents; ++i) validation += split.is_validation("document " + std::to_string(i));
    return validation;
  };
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    EXPECT_EQ(sides(2, 0.05, seed), 1);
    EXPECT_EQ(sides(2, 0.5, seed), 1);
    const int of_five = sides(5, 0.05, seed);
    EXPECT_TRUE(of_five >= 1 && of_five <= 4) << of_five;
  }
  EXPECT_EQ(sides(100, 0), 0);
  EXPECT_NEAR(sides(10000, 0.05), 500, 110);  // five standard deviations of a binomial
  EXPECT_NE(sides(10000, 0.05, 1), sides(10000, 0.05, 2));
}

TEST(Split, OneDocumentIsCutAtALineEnd) {
  Split split(0.1, 1);
  std::string text;
  for (int i = 0; i < 100; ++i) text += "line " + std::to_string(i) + "\n";
  split.add(text);
  split.finish();
  ASSERT_TRUE(split.cuts());
  const std::size_t cut = split.cut(text);
  EXPECT_EQ(text[cut - 1], '\n');
  EXPECT_NEAR(static_cast<double>(cut), 0.9 * static_cast<double>(text.size()), 9);
  const std::string early = "title\n" + std::string(994, 'x');  // 900 bytes with a line end far before the border
  EXPECT_EQ(split.cut(early), 900u);
  EXPECT_EQ(split.cut(std::string(800, 'x') + "\n" + std::string(199, 'x')), 801u);
  EXPECT_EQ(split.cut(std::string(798, 'x') + "\n" + std::string(201, 'x')), 900u);
  EXPECT_EQ(split.cut("ßß"), 2u);  // no line end: cuts between characters, and never returns 0
  Split two(0.1, 1);
  two.add("a");
  two.add("b");
  EXPECT_FALSE(two.cuts());
}

TEST(TextSample, IsBoundedUniformAndKeepsText) {
  TextSample all(1 << 20, 1);
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "line " + std::to_string(i) + "\n";
  all.add(text);
  const std::vector<std::string> passages = all.take();
  std::size_t bytes = 0;
  for (const std::string& passage : passages) {
    EXPECT_LE(passage.size(), 4096u);
    EXPECT_EQ(passage.back(), '\n');
    EXPECT_NE(text.find(passage), std::string::npos);
    bytes += passage.size();
  }
  EXPECT_EQ(bytes, text.size());

  TextSample some(40000, 1);
  for (int document = 0; document < 500; ++document)
    some.add(std::string(1000, static_cast<char>('a' + document / 20)));
  std::size_t kept = 0;
  std::string seen;
  for (const std::string& passage : some.take()) kept += passage.size(), seen += passage[0];
  EXPECT_EQ(kept, 40000u);
  EXPECT_NE(seen.find_first_of("abcd"), std::string::npos);  // from the beginning
  EXPECT_NE(seen.find_first_of("vwxy"), std::string::npos);  // and the end
  TextSample long_line(1 << 20, 1);
  std::string umlauts;
  for (int i = 0; i < 5000; ++i) umlauts += "ü";
  long_line.add("x" + umlauts);
  EXPECT_EQ(long_line.take().size(), 3u);  // 4095 + 4096 + 1810 bytes: never inside a character
}

}  // namespace
}  // namespace llmc::data
