// Runs programs by argument list and returns their output and exit status.
#include "compiler/build/process.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "error.h"
#include "files/temporary_folder.h"
#include "host/program_path.h"

namespace llmc::build {
namespace {

TEST(Process, OutputAndExitCode) {
  const Outcome outcome = run({"sh", {"sh", "-c", "echo out; echo err >&2; exit 3"}, ""});
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_NE(outcome.output.find("out\n"), std::string::npos);
  EXPECT_NE(outcome.output.find("err\n"), std::string::npos);
}

TEST(Process, ASignalIs128AndItsNumber) { EXPECT_EQ(run({"sh", {"sh", "-c", "kill -9 $$"}, ""}).exit_code, 137); }

TEST(Process, WordsArriveAsTheyAre) {
  const std::vector<std::string> words = {"a b", "$HOME", "`id`", "; touch x",  "\"'\\",
                                          "*",   "",      "-n",   "line\nline", "\xc3\xa9"};
  std::vector<std::string> argv = {"printf", "[%s]"};
  argv.insert(argv.end(), words.begin(), words.end());
  std::string expected;
  for (const std::string& word : words) expected += "[" + word + "]";
  EXPECT_EQ(run({"printf", argv, ""}).output, expected);
}

TEST(Process, MoreOutputThanAPipeHolds) {
  EXPECT_EQ(run({"head", {"head", "-c", "3000000", "/dev/zero"}, ""}).output.size(), 3000000u);
}

TEST(Process, StandardInputIsEmpty) { EXPECT_EQ(run({"cat", {"cat"}, ""}).output, ""); }

TEST(Process, IsStoppedAtItsLimit) {
  // The second also leaves a process that keeps the pipe open.
  for (const char* words : {"exec sleep 1000", "sleep 3 & exec sleep 1000"}) {
    const Outcome outcome = run({"the probe", {"sh", "-c", words}, "", 0.2});
    EXPECT_EQ(outcome.exit_code, 137);
    EXPECT_EQ(outcome.output, "the probe was still running after 0.2 s and was stopped");
  }
  EXPECT_EQ(run({"echo", {"echo", "done"}, "", 1000}).output, "done\n");
}

TEST(Process, RunsInItsDirectory) { EXPECT_EQ(run({"pwd", {"pwd", "-P"}, "/usr"}).output, "/usr\n"); }

TEST(Process, AProgramThatIsNotThere) {
  try {
    run({"x", {"/nonexistent/compiler"}, ""});
    FAIL() << "no error";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), Exit::toolchain);
    EXPECT_NE(std::string(failure.what()).find("/nonexistent/compiler"), std::string::npos);
  }
  EXPECT_THROW(run_all({{"true", {"true"}, ""}, {"x", {"/nonexistent/compiler"}, ""}}, 2), Failure);
}

/// Exits with the failure's code. A shell in place of the program would exit with 0.
void become_or_fail(const std::filesystem::path& program) {
  try {
    become({program.string()}, "");
  } catch (const Failure& failure) {
    std::fprintf(stderr, "%s", failure.what());
    std::_Exit(static_cast<int>(failure.code()));
  }
}

TEST(Process, WhatIsNoProgramIsNoScriptOfAShell) {
  const TemporaryFolder folder("process");
  const std::filesystem::path empty = folder.path() / "trainer";
  std::ofstream(empty).flush();
  std::filesystem::permissions(empty, std::filesystem::perms::owner_all);
  EXPECT_EXIT(become_or_fail(empty), testing::ExitedWithCode(3), "trainer: Exec format error");
  EXPECT_THROW(run({"x", {empty.string()}, ""}), Failure);
  std::filesystem::permissions(empty, std::filesystem::perms::owner_read);
  EXPECT_EXIT(become_or_fail(empty), testing::ExitedWithCode(3), "trainer: Permission denied");
  EXPECT_EXIT(become_or_fail(folder.path()), testing::ExitedWithCode(3), "Permission denied");
  EXPECT_EXIT(become_or_fail("/nonexistent/trainer"), testing::ExitedWithCode(3), "No such file");
}

TEST(Process, OutcomesKeepTheOrderOfTheCommands) {
  std::vector<Command> commands;
  for (int i = 0; i < 20; ++i)
    commands.push_back({"", {"sh", "-c", "sleep 0.0$((RANDOM % 5)) 2> /dev/null; echo " + std::to_string(i)}, ""});
  const std::vector<Outcome> outcomes = run_all(commands, 4);
  ASSERT_EQ(outcomes.size(), commands.size());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(outcomes[static_cast<std::size_t>(i)].output, std::to_string(i) + "\n");
}

TEST(Process, AsManyAtOnceAsJobsAllow) {
  const std::vector<Command> commands(4, {"sleep", {"sleep", "0.3"}, ""});
  const auto seconds = [&](int jobs) {
    const auto start = std::chrono::steady_clock::now();
    run_all(commands, jobs);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  EXPECT_GE(seconds(1), 1.2);  // sequentially
  const double two = seconds(2), four = seconds(4);
  EXPECT_GE(two, 0.6);
  EXPECT_LT(four, 1.2) << "four at once take as long as four in a row";
}

TEST(Process, FindOnPath) {
  EXPECT_TRUE(std::filesystem::path(find_on_path("sh")).is_absolute());
  EXPECT_EQ(find_on_path("no-such-program-anywhere"), "");
}

}  // namespace
}  // namespace llmc::build
