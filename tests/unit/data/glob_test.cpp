#include "data/glob.h"

#include <gtest/gtest.h>

#include "files.h"

namespace llmc {
namespace {

using test::Folder;

TEST(MatchesPattern, StarsAndQuestionMarks) {
  EXPECT_TRUE(matches_pattern("train-*.bin", "train-00000.bin"));
  EXPECT_TRUE(matches_pattern("train-*.bin", "train-.bin"));
  EXPECT_FALSE(matches_pattern("train-*.bin", "train-00000.bin.old"));
  EXPECT_TRUE(matches_pattern("*.b?n", "a.b.bin"));
  EXPECT_FALSE(matches_pattern("?", ""));
  EXPECT_TRUE(matches_pattern("*", ""));
  EXPECT_FALSE(matches_pattern("", "a"));
  EXPECT_TRUE(matches_pattern("[a]", "[a]"));  // no character classes: brackets match themselves
  EXPECT_FALSE(matches_pattern("[a]", "a"));
}

TEST(MatchesPattern, ManyStarsAreNotExponential) {
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "a*";
  EXPECT_FALSE(matches_pattern(pattern + "b", std::string(20000, 'a')));
}

TEST(GlobFiles, SortsByBytesAndKeepsOutHiddenFilesAndFolders) {
  Folder folder;
  for (const char* name : {"b/x-2.bin", "b/x-10.bin", "a/x-9.bin", "B/x-1.bin", "a/.x-1.bin", "a/y.bin"})
    folder.write(name, "");
  std::filesystem::create_directory(folder.path / "a" / "x-dir.bin");
  std::vector<std::string> found;
  for (const auto& path : glob_files(folder / "*/x-*.bin"))
    found.push_back(std::filesystem::relative(path, folder.path).string());
  EXPECT_EQ(found, (std::vector<std::string>{"B/x-1.bin", "a/x-9.bin", "b/x-10.bin", "b/x-2.bin"}));
}

TEST(GlobFiles, NothingFoundIsAnErrorThatNamesThePattern) {
  Folder folder;
  EXPECT_FAILS_WITH(glob_files(folder / "train-*.bin"), "no file matches '" + folder / "train-*.bin" + "'");
  EXPECT_FAILS_WITH(glob_files(folder / "missing/deep/*.bin"), "no file matches");
  EXPECT_FAILS_WITH(glob_files(""), "empty");
}

TEST(GlobFiles, NothingFoundSaysWhatIsThere) {
  Folder folder;
  for (const char* name : {"set/train-00000.bin", "set/train-00001.bin", "set/val-00000.bin", "pair/text.bin",
                           "pair/text.idx", "olmo/part-0.npy", "text/a.txt"})
    folder.write(name, "");
  const auto said = [&](const std::string& pattern, const test::Facts& facts) {
    EXPECT_TRUE(test::has_facts(test::failure_of([&] { glob_files(folder / pattern); }), facts));
  };
  said("set", {"'" + folder / "set" + "'", "'" + folder / "set/train-*.bin" + "', which matches 2 files",
               "'" + folder / "set/val-*.bin" + "', which matches 1 file"});
  said("pair", {"'" + folder / "pair" + "'", "'" + folder / "pair/*.bin" + "', which matches 1 file"});
  said("olmo", {"'" + folder / "olmo" + "'", "'" + folder / "olmo/*.npy" + "', which matches 1 file"});
  said("text", {"'" + folder / "text" + "'", "folder", "no .bin file"});
  said("pair/text", "'" + folder / "pair/text.bin" + "' exists: write '" + folder / "pair/text.bin" + "'");
  said("set/train-0000[0-9].bin", ": write '" + folder / "set/train-0000?.bin" + "', which matches 2 files");
  said("set/{train,val}-*.bin", ": write '" + folder / "set/*-*.bin" + "', which matches 3 files");
  said("set/tarin-*.bin", "'" + folder / "set" + "' has 3 files, such as 'train-00000.bin'");
  said("sett/train-*.bin", "no folder '" + folder / "sett" + "'");
  EXPECT_FAILS_WITH(glob_files(folder.path.string()), "no .bin file", "but '" + folder / "pair" + "' has");
  said("*.bin", {"'" + folder.path.string() + "' has no .bin", "'" + folder / "pair" + "' has"});
  said("text/*.bin", "'llmc data build'");
  EXPECT_FAILS_WITH(glob_files("~/data/*.bin"), "~", "whole path");
}

}  // namespace
}  // namespace llmc
