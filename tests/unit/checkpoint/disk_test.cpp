// Failing file system calls report path, reason and exit code, also for failures that occur as root.
#include "files/disk.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../facts.h"
#include "files/temporary_folder.h"
#include "small_state.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;

/// Creates a link to itself, which cannot be followed.
fs::path make_loop(const fs::path& folder) {
  fs::create_symlink("loop", folder / "loop");
  return folder / "loop";
}

template <typename Call>
std::string refused(Exit exit, const Call& call) {
  try {
    call();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), exit);
    return failure.what();
  }
  return "no failure";
}

TEST(Disk, WhatIsNotThereIsNoError) {
  test::Folder base;
  write_all(base.path / "file", "text");
  EXPECT_FALSE(disk::exists(base.path / "none" / "x", Exit::usage));
  EXPECT_FALSE(disk::exists(base.path / "file" / "x", Exit::usage)) << "below a file";
  EXPECT_FALSE(disk::is_folder(base.path / "file", Exit::usage));
  EXPECT_TRUE(disk::is_file(base.path / "file", Exit::usage));
  EXPECT_TRUE(disk::is_folder(base.path, Exit::usage));
  EXPECT_EQ(disk::size(base.path / "file", Exit::usage), 4u);
  EXPECT_EQ(disk::entries(base.path, Exit::usage), std::vector<fs::path>{base.path / "file"});
  EXPECT_TRUE(disk::readable_entries(base.path / "none").empty());
  EXPECT_NO_THROW(disk::remove(base.path / "none", Exit::usage));
}

TEST(Disk, WhatCannotBeLookedUpIsSaid) {
  test::Folder base;
  const fs::path loop = make_loop(base.path), below = loop / "x", longer = base.path / std::string(300, 'n');
  for (const fs::path& path : {below, longer}) {
    const std::string reason = path == below ? "Too many levels of symbolic links" : "File name too long";
    const auto said = [&](const auto& call) {
      const std::string text = refused(Exit::checkpoint, call);
      EXPECT_NE(text.find("'" + path.string() + "': " + reason), std::string::npos) << text;
    };
    said([&] { disk::exists(path, Exit::checkpoint); });
    said([&] { disk::is_folder(path, Exit::checkpoint); });
    said([&] { disk::is_file(path, Exit::checkpoint); });
    said([&] { disk::size(path, Exit::checkpoint); });
    said([&] { disk::entries(path, Exit::checkpoint); });
    said([&] { disk::files_below(path, Exit::checkpoint); });
    said([&] { disk::canonical(path, Exit::checkpoint); });
    said([&] { disk::weakly_canonical(path, Exit::checkpoint); });
    said([&] { disk::rename(base.path, path, Exit::checkpoint); });
    said([&] { disk::remove(path, Exit::checkpoint); });
    EXPECT_EQ(disk::canonical_if_known(path), path);
    EXPECT_TRUE(disk::readable_entries(path).empty());
  }
  EXPECT_TRUE(test::has_facts(refused(Exit::usage, [] { disk::absolute("", Exit::usage); }), {"path", "empty"}));
}

TEST(Disk, ATemporaryFolderThatCannotBeMadeIsSaid) {
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before ? before : "";
  setenv("TMPDIR", "/proc", 1);  // not even root can write there
  EXPECT_TRUE(test::has_facts(refused(Exit::toolchain, [] { TemporaryFolder("test"); }),
                              {"'/proc'", "No such file or directory", "TMPDIR"}));
  before ? setenv("TMPDIR", kept.c_str(), 1) : unsetenv("TMPDIR");
}

/// Opening a pipe waits for a writer, so a failing test would hang without one.
TEST(Disk, OnlyRegularFilesAreOpened) {
  test::Folder base;
  write_all(base.path / "file", "text");
  ASSERT_EQ(::mkfifo((base.path / "pipe").c_str(), 0600), 0);
  const int writer = ::open((base.path / "pipe").c_str(), O_RDWR);
  std::string word;
  EXPECT_TRUE(disk::open(base.path / "file") >> word);
  EXPECT_EQ(word, "text");
  for (const auto& [path, error] : {std::pair<fs::path, int>{base.path / "pipe", EINVAL},
                                    {"/dev/zero", EINVAL},
                                    {base.path, EISDIR},
                                    {base.path / "none", ENOENT}}) {
    ASSERT_FALSE(disk::open(path)) << path;
    EXPECT_EQ(errno, error) << path;
  }
  EXPECT_EQ(disk::text(base.path / "file"), "text");
  write_all(base.path / "empty", "");
  EXPECT_EQ(disk::text(base.path / "empty"), "");
  for (const fs::path& path : {base.path / "pipe", base.path, base.path / "none", fs::path("/proc/self/mem")})
    EXPECT_FALSE(disk::text(path)) << path;  // reading /proc/self/mem at offset 0 fails
  ::close(writer);
}

TEST(Disk, ATextThatIsTooLargeIsNotRead) {
  test::Folder base;
  write_all(base.path / "file", "text");
  EXPECT_EQ(disk::text(base.path / "file", 4), "text");
  EXPECT_FALSE(disk::text(base.path / "file", 3));
  EXPECT_EQ(errno, EFBIG);
}

TEST(Disk, OfALargeFileTheTailIsRead) {
  test::Folder base;
  const fs::path file = base.path / "file";
  write_all(file, "text");
  EXPECT_EQ(disk::tail(file, 4), "text");
  ASSERT_EQ(disk::tail(file, 3), "ext");
  EXPECT_EQ(disk::tail(file, 4, 1), "ext");
  EXPECT_EQ(disk::tail(file, 2, 1), "xt");
  EXPECT_EQ(disk::tail(file, 4, 4), "");
  EXPECT_EQ(disk::tail(file, 4, 5), "") << "cut since";
  EXPECT_EQ(disk::tail(base.path / "none", 4), "");
  fs::resize_file(file, std::uintmax_t{1} << 40);  // of zeros that take no space
  EXPECT_EQ(disk::tail(file, 3), std::string(3, '\0'));
  EXPECT_EQ(disk::tail(file, 3, 1), std::string(3, '\0'));
}

}  // namespace
}  // namespace llmc
