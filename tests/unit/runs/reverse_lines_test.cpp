// Reads lines from a file's end, for any position of block boundaries.
#include "compiler/tools/runs/reverse_lines.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "../checkpoint/small_state.h"
#include "../facts.h"
#include "error.h"
#include "run/json_lines.h"

namespace llmc::runs {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> backwards(const fs::path& path) {
  ReverseLines lines(path);
  std::vector<std::string> found;
  while (const std::optional<std::string> line = lines.next()) found.push_back(*line);
  EXPECT_FALSE(lines.next());
  return found;
}

TEST(ReverseLines, OfSmallFiles) {
  test::Folder base;
  const fs::path path = base.path / "lines";
  using Lines = std::vector<std::string>;
  EXPECT_EQ(backwards(path), Lines{}) << "there is no file";
  for (const auto& [text, lines] : {std::pair<const char*, Lines>{"", {}},
                                    {"torn", {}},
                                    {"\n", {""}},
                                    {"a\n", {"a"}},
                                    {"a\nb\ntorn", {"b", "a"}},
                                    {"\n\na\n\n", {"", "a", "", ""}}}) {
    write_all(path, text);
    EXPECT_EQ(backwards(path), lines) << text;
  }
  EXPECT_THROW(ReverseLines{base.path}, Failure) << "a folder";
  // Opening a pipe would wait for a writer; with one, a failing test ends.
  ASSERT_EQ(::mkfifo((base.path / "pipe").c_str(), 0600), 0);
  const int writer = ::open((base.path / "pipe").c_str(), O_RDWR);
  try {
    ReverseLines{base.path / "pipe"};
    ADD_FAILURE() << "a pipe";
  } catch (const Failure& failure) {
    EXPECT_TRUE(test::has_facts(failure.what(), {"pipe'", "not a file"}));
  }
  ::close(writer);
}

TEST(ReverseLines, OfALineThatIsTooLong) {
  test::Folder base;
  write_all(base.path / "whole", "first\n" + std::string(kMostLineBytes - 1, 'x') + "\nlast\n");
  EXPECT_EQ(backwards(base.path / "whole").size(), 3u);
  for (const char* end : {"\nlast\n", ""}) {
    write_all(base.path / "longer", "first\n" + std::string(2 * kMostLineBytes, 'x') + end);
    EXPECT_THROW(backwards(base.path / "longer"), Failure) << "ends with '" << end << "'";
  }
}

TEST(ReverseLines, OfFilesOfSeveralBlocks) {
  test::Folder base;
  const fs::path path = base.path / "lines";
  // Line breaks before, at and after each block boundary of 64 KiB, a line of several blocks, and many lines.
  for (const std::size_t torn :
       {std::size_t{0}, std::size_t{1}, std::size_t{65535}, std::size_t{65536}, std::size_t{200000}}) {
    std::vector<std::string> lines = {"first", std::string(300000, 'x'), "", "y"};
    for (int i = 0; i < 20000; ++i) lines.push_back(std::to_string(i * i));
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    write_all(path, text + std::string(torn, 't'));
    std::ranges::reverse(lines);
    EXPECT_TRUE(backwards(path) == lines) << torn;
  }
}

}  // namespace
}  // namespace llmc::runs
