// The lock of a project's folder.
#include "compiler/build/project_lock.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "../folder.h"
#include "compiler/emit/project.h"
#include "error.h"

namespace llmc::build {
namespace {

namespace fs = std::filesystem;

TEST(ProjectLock, ALinkIsNotFollowed) {
  test::Folder base;
  const fs::path lock = base.path / "out" / emit::kLockFile;
  fs::create_directory(base.path / "out");
  fs::create_symlink(base.path / "elsewhere", lock);
  try {
    const ProjectLock locked(base.path / "out", [](const std::string&) {});
    FAIL() << "no error";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), Exit::usage);
    EXPECT_NE(std::string(failure.what()).find(lock.string() + "' is a link"), std::string::npos) << failure.what();
  }
  EXPECT_FALSE(fs::exists(base.path / "elsewhere"));
}

}  // namespace
}  // namespace llmc::build
