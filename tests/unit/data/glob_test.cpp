#include "data/glob.h"

#include <gtest/gtest.h>

#include "files.h"

namespace llmc {
namespace {

using test::TemporaryFolder;

TEST(MatchesPattern, StarsAndQuestionMarks) {
  EXPECT_TRUE(matches_pattern("train-*.bin", "train-00000.bin"));
  EXPECT_TRUE(matches_pattern("train-*.bin", "train-.bin"));
  EXPECT_FALSE(matches_pattern("train-*.bin", "train-00000.bin.old"));
  EXPECT_TRUE(matches_pattern("*.b?n", "a.b.bin"));
  EXPECT_FALSE(matches_pattern("?", ""));
  EXPECT_TRUE(matches_pattern("*", ""));
  EXPECT_FALSE(matches_pattern("", "a"));
  EXPECT_TRUE(matches_pattern("[a]", "[a]"));  // no character classes: brackets are themselves
  EXPECT_FALSE(matches_pattern("[a]", "a"));
}

TEST(MatchesPattern, ManyStarsAreNotExponential) {
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "a*";
  EXPECT_FALSE(matches_pattern(pattern + "b", std::string(20000, 'a')));
}

TEST(GlobFiles, SortsByBytesAndKeepsOutHiddenFilesAndFolders) {
  TemporaryFolder folder;
  for (const char* name : {"b/x-2.bin", "b/x-10.bin", "a/x-9.bin", "B/x-1.bin", "a/.x-1.bin", "a/y.bin"})
    folder.write(name, "");
  std::filesystem::create_directory(folder.path() / "a" / "x-dir.bin");
  std::vector<std::string> found;
  for (const auto& path : glob_files(folder / "*/x-*.bin"))
    found.push_back(std::filesystem::relative(path, folder.path()).string());
  EXPECT_EQ(found, (std::vector<std::string>{"B/x-1.bin", "a/x-9.bin", "b/x-10.bin", "b/x-2.bin"}));
}

TEST(GlobFiles, NothingFoundIsAnErrorThatNamesThePattern) {
  TemporaryFolder folder;
  EXPECT_FAILS_WITH(glob_files(folder / "train-*.bin"), "no file matches '" + folder / "train-*.bin" + "'");
  EXPECT_FAILS_WITH(glob_files(folder / "missing/deep/*.bin"), "no file matches");
  EXPECT_FAILS_WITH(glob_files(""), "empty");
}

}  // namespace
}  // namespace llmc
