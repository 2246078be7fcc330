// Trainers as child processes, with a shell in place of a trainer.
#include "compiler/tools/sweep/child.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
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

/// A request that comes before the program has replaced this one's handlers ends it too.
TEST(Child, IsAskedFromItsFirstMomentOn) {
  test::Folder folder;
  struct sigaction swallow{}, former{};
  swallow.sa_handler = [](int) {};
  ASSERT_EQ(sigaction(SIGTERM, &swallow, &former), 0);
  for (int time = 0; time < 10; ++time) {
    Child child({"/bin/sleep", "1000"}, folder.path / "log");
    child.stop();
    std::optional<int> code;
    while (!(code = child.ended())) sleep_shortly();
    EXPECT_EQ(code, 128 + SIGTERM);
  }
  sigaction(SIGTERM, &former, nullptr);
}

}  // namespace
}  // namespace llmc::sweep
