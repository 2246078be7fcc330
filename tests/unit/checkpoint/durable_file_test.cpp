// Records, replacement and errors of durable files.
#include "files/durable_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "small_state.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;

TEST(DurableFile, RecordHasSizeAndChecksum) {
  test::Folder directory;
  DurableFile file(directory.path / "a");
  file.write("one ");
  file.write("two");
  const FileRecord record = file.finish();
  Checksum expected;
  expected.update("one two", 7);
  EXPECT_EQ(record.name, "a");
  EXPECT_EQ(record.bytes, 7u);
  EXPECT_EQ(record.xxh3, expected.hex());
  EXPECT_EQ(read_all(directory.path / "a"), "one two");
}

/// The checksum is computed as bytes are written in order, so it would be wrong after overwriting.
TEST(DurableFile, AnOverwrittenFileHasNoChecksum) {
  test::Folder directory;
  DurableFile file(directory.path / "a");
  file.write("one two");
  file.overwrite(4, "ten");
  const FileRecord record = file.finish();
  EXPECT_EQ(record.bytes, 7u);
  EXPECT_EQ(record.xxh3, "");
  EXPECT_EQ(read_all(directory.path / "a"), "one ten");
}

constexpr Writer kWriter{Exit::usage, "--out"};

/// A rename would replace them by a file.
TEST(DurableFile, WhatIsNoFileIsNotReplaced) {
  test::Folder directory;
  const std::filesystem::path pipe = directory.path / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::filesystem::path& path : {pipe, directory.path}) {
    EXPECT_THROW(write_file_atomically(path, "text", kWriter), Failure) << path;
    EXPECT_THROW(check_can_write(path, kWriter), Failure) << path;
  }
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
}

/// A pipe that nobody reads would stop whoever opens it to write.
TEST(DurableFile, OnlyARegularFileIsOpenedInAnOwnFolder) {
  test::Folder folder;
  const int file = open_own_file(folder.path / "new", O_RDWR);
  EXPECT_EQ(::write(file, "x", 1), 1);
  ::close(file);
  ASSERT_EQ(::mkfifo((folder.path / "pipe").c_str(), 0600), 0);
  fs::create_symlink("new", folder.path / "link");
  fs::create_symlink("none", folder.path / "dangling");
  const auto refused = [&](const fs::path& path) {
    EXPECT_EXIT(
        {
          ::alarm(10);
          try {
            open_own_file(path, O_WRONLY | O_TRUNC, {Exit::usage, "-o"});
          } catch (const Failure& failure) {
            std::fputs(failure.what(), stderr);
            std::_Exit(static_cast<int>(failure.code()));
          }
          std::_Exit(0);
        },
        testing::ExitedWithCode(2), path.filename().string() + "' is (a link|not a regular file)");
  };
  for (const fs::path& path :
       {folder.path / "pipe", folder.path / "link", folder.path / "dangling", fs::path("/dev/null")})
    refused(path);
  EXPECT_EQ(read_all(folder.path / "new"), "x");
  EXPECT_FALSE(fs::exists(folder.path / "none"));
}

TEST(DurableFile, ALinksFileIsReplaced) {
  test::Folder directory;
  const std::filesystem::path link = directory.path / "link";
  std::filesystem::create_symlink("file", link);
  for (const char* text : {"one", "two"}) {
    write_file_atomically(link, text, kWriter);
    EXPECT_TRUE(std::filesystem::is_symlink(link));
    EXPECT_EQ(read_all(directory.path / "file"), text);
  }
}

TEST(DurableFile, WhetherAFileCanBeWrittenIsTriedWithoutOne) {
  test::Folder directory;
  check_can_write(directory.path / "file", kWriter);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path));
  write_file_atomically(directory.path / "file", "text", kWriter);
  check_can_write(directory.path / "file", kWriter);
  EXPECT_EQ(read_all(directory.path / "file"), "text");
  try {
    check_can_write(directory.path / "none" / "file", kWriter);
    FAIL() << "the folder is missing";
  } catch (const Failure& failure) {
    const std::string text = failure.what(), folder = (directory.path / "none").string();
    EXPECT_NE(text.find("'" + folder + "'"), std::string::npos) << text;
    EXPECT_NE(text.find("mkdir -p " + folder), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace llmc
