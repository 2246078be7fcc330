// Trainers as child processes, with a shell in place of a trainer.
#include "compiler/tools/sweep/child.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "../folder.h"
#include "files/disk.h"

namespace llmc::sweep {
namespace {

void sleep_shortly() { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }

TEST(Child, IsAskedOnce) {
  test::Folder folder;
  const std::filesystem::path log = folder.path / "log", go = folder.path / "go";
  Child child({"/bin/sh", "-c",
               "trap 'echo asked' TERM; echo ready; while [ ! -e '" + go.string() + "' ]; do sleep 0.01; done"},
              log);
  const auto wait_for = [&](const std::string& text) {
    while (!disk::tail(log, 100, 0).ends_with(text)) {
      ASSERT_FALSE(child.ended());
      sleep_shortly();
    }
  };
  wait_for("ready\n");
  child.stop();
  wait_for("asked\n");
  child.stop();
  std::ofstream(go).close();
  while (!child.ended()) sleep_shortly();
  EXPECT_EQ(disk::tail(log, 100, 0), "ready\nasked\n");
}

}  // namespace
}  // namespace llmc::sweep
