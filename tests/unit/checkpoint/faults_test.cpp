// Fails the n-th system call of a save, for every n. Afterwards the new checkpoint is complete or absent, the old one
// loads, and no leftovers survive the next save.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>

#include "../facts.h"
#include "checkpoint/checkpoint.h"
#include "error.h"
#include "small_state.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;

struct Ending {
  int exit_code;  // 128 + n for a signal
  std::string output;
};

Ending run_save(const fs::path& run, std::int64_t step,
                const std::vector<std::pair<std::string, std::string>>& environment) {
  int pipe_ends[2];
  EXPECT_EQ(::pipe(pipe_ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(pipe_ends[1], 2);
    ::close(pipe_ends[0]);
    ::close(pipe_ends[1]);
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    ::setenv("LD_PRELOAD", LLMC_FAIL_SHIM, 1);
    ::execl(LLMC_SAVE_PROGRAM, LLMC_SAVE_PROGRAM, run.c_str(), std::to_string(step).c_str(), nullptr);
    ::_exit(127);
  }
  ::close(pipe_ends[1]);
  std::string output;
  char block[4096];
  for (ssize_t got; (got = ::read(pipe_ends[0], block, sizeof block)) > 0;)
    output.append(block, static_cast<std::size_t>(got));
  ::close(pipe_ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return {WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status), output};
}

void expect_loads(const CheckpointEntry& checkpoint) {
  SmallState loaded;
  EXPECT_EQ(load_checkpoint(checkpoint.path, small_parameters(), loaded.access, Trust::verified),
            small_train_state(checkpoint.step));
  EXPECT_TRUE(loaded == SmallState(static_cast<float>(checkpoint.step + 1)));
}

/// Saves like save_program, without a fault.
void save_here(const fs::path& run, std::int64_t step) {
  SmallState state(static_cast<float>(step + 1));
  save_checkpoint(run, small_train_state(step), kTexts, small_parameters(), state.access,
                  {.retention = {1, 0}, .log = {}, .shard_bytes = 600});
}

/// Saves `step` after step 10, with a failure at each call n; 10 or a complete `step` must remain. Returns the number
/// of calls.
int fail_every_call(const std::string& mode, std::int64_t step, bool no_exchange = false) {
  std::vector<std::pair<std::string, std::string>> environment = {{"LLMC_FAIL_MODE", mode}, {"LLMC_FAIL_CALL", ""}};
  if (no_exchange) environment.emplace_back("LLMC_FAIL_EXCHANGE", "1");
  for (int n = 1;; ++n) {
    SCOPED_TRACE(mode + " at call " + std::to_string(n));
    test::Folder run;
    const fs::path parent = run.path / "checkpoints";
    save_here(run.path, 10);
    environment[1].second = std::to_string(n);
    const Ending ending = run_save(run.path, step, environment);
    if (ending.exit_code == 0) return n - 1;

    std::string damage;
    const auto latest = find_latest_checkpoint(run.path, [&](const std::string& line) { damage += line; });
    EXPECT_TRUE(damage.empty()) << damage;  // complete or absent, never partial
    if (!latest) {
      ADD_FAILURE() << "no checkpoint is left; " << ending.output;
      return 0;
    }
    expect_loads(*latest);
    const bool killed = ending.exit_code == 128 + SIGKILL;
    if (mode == "EINTR" || mode == "SHORT") {
      EXPECT_EQ(ending.exit_code, 10) << ending.output;
    }
    if (ending.exit_code == 10) {
      EXPECT_EQ(latest->step, step);
    }
    if (ending.exit_code == 10 &&
        (mode == "EIO" || mode == "ENOSPC" || mode == "SYNC")) {  // after an error only retention may continue
      EXPECT_TRUE(test::has_facts(ending.output, {"old checkpoint", "not removed"}));
    }
    if (ending.exit_code != 10 && !killed) {
      EXPECT_EQ(ending.exit_code, 6) << ending.output;
      EXPECT_NE(ending.output.find(run.path.string()), std::string::npos)
          << "the message names the path: " << ending.output;
    }
    if (!killed) {
      EXPECT_TRUE(hidden_entries(parent).empty()) << hidden_entries(parent).front() << ending.output;
    }

    save_here(run.path, 30);
    EXPECT_TRUE(hidden_entries(parent).empty());
    EXPECT_EQ(find_latest_checkpoint(run.path, {})->step, 30);
    EXPECT_EQ(list_checkpoints(run.path).size(), 1u);
  }
}

// 9 files: at least open, write, fsync and close each; mkdir, the two directories' open, fsync and close, two renames.
constexpr int kLeastCalls = 9 * 4 + 1 + 2 * 3 + 2;

TEST(Faults, NoSpace) { EXPECT_GE(fail_every_call("ENOSPC", 20), kLeastCalls); }
TEST(Faults, InputOutputError) { EXPECT_GE(fail_every_call("EIO", 20), kLeastCalls); }
TEST(Faults, Killed) { EXPECT_GE(fail_every_call("KILL", 20), kLeastCalls); }
TEST(Faults, Interrupted) { EXPECT_GE(fail_every_call("EINTR", 20), 9 * 3 + 2 * 2); }
TEST(Faults, ShortWrites) { EXPECT_GE(fail_every_call("SHORT", 20), 9); }
TEST(Faults, EveryFileAndBothDirectoriesAreSynced) { EXPECT_EQ(fail_every_call("SYNC", 20), 9 + 2); }
TEST(Faults, ReplacingAStep) { EXPECT_GE(fail_every_call("EIO", 10), kLeastCalls - 1); }
TEST(Faults, ReplacingAStepKilled) { EXPECT_GE(fail_every_call("KILL", 10), kLeastCalls - 1); }
TEST(Faults, ReplacingAStepWithoutExchange) { EXPECT_GE(fail_every_call("EIO", 10, true), kLeastCalls); }

/// Calls of a save of step 20 that removes step 10; paths are relative to the folder.
std::vector<std::string> calls_of_a_save(const fs::path& run) {
  const test::Folder elsewhere;
  const fs::path log = elsewhere.path / "log";
  EXPECT_EQ(run_save(run, 20, {{"LLMC_FAIL_LOG", log.string()}}).exit_code, 0);
  std::vector<std::string> calls;
  std::ifstream in(log);
  for (std::string line; std::getline(in, line); calls.push_back(line))
    for (std::size_t at; (at = line.find(run.string() + "/")) != std::string::npos;)
      line.erase(at, run.string().size() + 1);
  return calls;
}

/// Position of a call; fails the test if it is missing.
std::ptrdiff_t at(const std::vector<std::string>& calls, const std::string& call, std::ptrdiff_t from = 0) {
  const auto found = std::find(calls.begin() + from, calls.end(), call);
  EXPECT_NE(found, calls.end()) << call << " after call " << from;
  return found - calls.begin();
}

TEST(Faults, AnOldCheckpointIsRenamedBeforeItIsDeleted) {
  test::Folder run;
  save_here(run.path, 10);
  const auto calls = calls_of_a_save(run.path);
  const auto renamed = at(calls, "rename checkpoints/step-00000010 checkpoints/.trash-step-00000010");
  at(calls, "unlink checkpoints/.trash-step-00000010/manifest.json", renamed);
  at(calls, "remove checkpoints/.trash-step-00000010", renamed);
  for (const std::string& call : calls)
    for (const char* removal : {"unlink", "rmdir", "remove"})
      EXPECT_FALSE(call.starts_with(std::string(removal) + " checkpoints/step-")) << call;
  EXPECT_LT(at(calls, "rename checkpoints/.tmp-step-00000020 checkpoints/step-00000020"), renamed)
      << "the new one first";
}

TEST(Faults, TheParentOfANewFolderIsSynced) {
  test::Folder base;
  const fs::path run = base.path / "new" / "run";
  const auto calls = calls_of_a_save(run);
  const auto path = [](const fs::path& p) { return p.string(); };
  at(calls, "fsync " + path(base.path), at(calls, "mkdir " + path(base.path / "new")));
  at(calls, "fsync " + path(base.path / "new"), at(calls, "mkdir " + path(run)));
  at(calls, "fsync " + path(run), at(calls, "mkdir checkpoints"));
  at(calls, "fsync checkpoints", at(calls, "rename checkpoints/.tmp-step-00000020 checkpoints/step-00000020"));
}

TEST(Faults, NoSpaceIsFoundBeforeAnythingIsWritten) {
  test::Folder run;
  save_here(run.path, 10);
  const fs::path old = run.path / "checkpoints" / "step-00000010" / "manifest.json";
  const auto before = fs::last_write_time(run.path / "checkpoints");
  const Ending ending = run_save(run.path, 20, {{"LLMC_FAIL_FREE", "100000"}});
  EXPECT_EQ(ending.exit_code, 6);
  EXPECT_TRUE(test::has_facts(ending.output, {"no space", run.path.string(), " bytes", "98304"}));
  EXPECT_EQ(fs::last_write_time(run.path / "checkpoints"), before) << "the folder was touched";
  EXPECT_TRUE(fs::exists(old));
}

}  // namespace
}  // namespace llmc
