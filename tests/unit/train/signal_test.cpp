// Signals: every way to stop a run, and that it goes on from there to the same end.
#include <sys/prctl.h>

#include "comm/connection.h"
#include "comm/requests.h"
#include "error.h"
#include "runs.h"

namespace llmc::fake {
namespace {

class Signals : public Runs {
 protected:
  void SetUp() override {
    Runs::SetUp();
    ::signal(SIGHUP, SIG_DFL);  // nohup would ignore it
    train({"--run", "clean"});
  }
};

TEST_F(Signals, StopSaveAndResume) {
  for (const auto& [signal, name] :
       {std::pair{SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"}, {SIGHUP, "SIGHUP"}, {SIGUSR2, "SIGUSR2"}}) {
    const std::string run = name;
    close_gate(9);
    const pid_t child = start({"--run", run, "--resume=none", "--follow-spec", "--allow", "seed"}, {"FAKE_GATES=9"});
    wait_for_gate(child, 9);
    ::kill(child, signal);
    open_gate(9);
    const Result stopped = finish(child);
    EXPECT_EQ(stopped.status, 75) << stopped.err;
    EXPECT_TRUE(contains(stopped.err, std::string("stopped by ") + name + " after step ")) << stopped.err;
    EXPECT_TRUE(stopped.err.ends_with("trainer --base data --threads 1 --run " + run + "\n")) << stopped.err;
    const auto last = lines(run + "/metrics.jsonl").back()["step"].get<int>();
    EXPECT_LT(last, 20);
    EXPECT_EQ(checkpoint(run, last).size(), 6u);
    train({"--run", run});
    expect_same_checkpoint("clean", run, 20);
  }
}

TEST_F(Signals, Usr1SavesAndGoesOn) {
  const pid_t child = start({"--run", "run", "checkpoint.every=0"}, {"FAKE_GATES=5"});
  wait_for_gate(child, 5);
  ::kill(child, SIGUSR1);
  open_gate(5);
  EXPECT_EQ(finish(child).status, 0);
  int saves = 0;
  for (const auto& entry : fs::directory_iterator(folder_ / "run/checkpoints")) saves += entry.is_directory();
  EXPECT_EQ(saves, 2);  // the requested one, and the last
  expect_same_checkpoint("clean", "run", 20);
}

TEST_F(Signals, ARequestToSaveBeforeTheFirstStepIsNoEnd) {
  const int port = port_of(listen_at(0, {}));
  const pid_t child =
      start({"--run", "run", "--start-timeout", "60"},
            {"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + std::to_string(port - 1)});
  // It waits for another rank when it listens.
  while (!ended(child)) {
    try {
      listen_at(port, {});
    } catch (const Failure&) {
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ::kill(child, SIGUSR1);
  ::kill(child, SIGTERM);
  EXPECT_EQ(finish(child).status, 128 + SIGTERM);
}

TEST_F(Signals, TheSecondOneStopsAtOnce) {
  const pid_t child = start({"--run", "run"}, {"FAKE_GATES=4"});  // never opened: the step does not end
  wait_for_gate(child, 4);
  while (!ended(child)) {
    ::kill(child, SIGTERM);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_EQ(finish(child).status, 128 + SIGTERM);
  EXPECT_EQ(checkpoint("run", 3).size() + checkpoint("run", 4).size(), 0u);
}

TEST_F(Signals, ARepeatAtOnceIsTheSameRequest) {
  const pid_t child = start({"--run", "run"}, {"FAKE_GATES=4"});
  wait_for_gate(child, 4);
  for (const int signal : {SIGTERM, SIGTERM, SIGHUP, SIGTERM}) {
    ::kill(child, signal);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // or they merge into one
  }
  // A launcher's forwarded signal is the same request, however late it arrives.
  std::this_thread::sleep_for(kSameRequest);
  sigqueue(child, SIGTERM, sigval{.sival_int = static_cast<int>(PassedOn::first)});
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  open_gate(4);
  const Result stopped = finish(child);
  EXPECT_EQ(stopped.status, 75) << stopped.err;
  EXPECT_TRUE(contains(stopped.err, "stopped by SIGTERM after step ")) << stopped.err;
}

TEST_F(Signals, WhatALauncherPassesOnAgainStopsAtOnce) {
  const pid_t child = start({"--run", "run"}, {"FAKE_GATES=4"});
  wait_for_gate(child, 4);
  sigqueue(child, SIGTERM, sigval{.sival_int = static_cast<int>(PassedOn::first)});
  while (!ended(child)) {  // a signal is dropped while another is pending
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    sigqueue(child, SIGTERM, sigval{.sival_int = static_cast<int>(PassedOn::again)});
  }
  EXPECT_EQ(finish(child).status, 128 + SIGTERM);
}

TEST_F(Signals, TheParentsDeathIsTheSameRequest) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // so that finish() can wait for the orphan
  int child_of_parent[2];
  ASSERT_EQ(::pipe(child_of_parent), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    const pid_t child = start({"--run", "run"}, {"FAKE_GATES=4"});
    if (::write(child_of_parent[1], &child, sizeof child) == sizeof child) ::pause();
    ::_exit(1);
  }
  pid_t child = 0;
  ASSERT_EQ(::read(child_of_parent[0], &child, sizeof child), static_cast<ssize_t>(sizeof child));
  wait_for_gate(parent, 4);
  ::kill(child, SIGTERM);
  std::this_thread::sleep_for(kSameRequest + std::chrono::milliseconds(100));
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  open_gate(4);
  const Result stopped = finish(child);
  EXPECT_EQ(stopped.status, 75) << stopped.err;
  EXPECT_EQ(checkpoint("run", 4).size(), 6u);
}

/// As the mpirun of a launcher that was killed.
TEST_F(Signals, ALaunchersDeathIsTheSameRequest) {
  const pid_t child = start({"--run", "run"}, {"FAKE_GATES=4", "LLMC_STARTER=1"});
  wait_for_gate(child, 4);
  sigqueue(child, SIGTERM, sigval{.sival_int = static_cast<int>(PassedOn::first)});
  std::this_thread::sleep_for(kSameRequest + std::chrono::milliseconds(100));
  ::kill(child, SIGUSR2);
  open_gate(4);
  EXPECT_EQ(finish(child).status, 75);
}

TEST_F(Signals, KilledAtAnyMomentTheRunEndsTheSame) {
  for (int moment = 0; moment < 6; ++moment) {
    const std::string run = "kill" + std::to_string(moment);
    for (int tries = 0; tries < 20; ++tries) {
      const pid_t child = start({"--run", run, "checkpoint.every=1"}, {"FAKE_STEP_MS=2"});
      std::this_thread::sleep_for(std::chrono::milliseconds(23 + 7 * moment));
      ::kill(child, SIGKILL);
      if (finish(child).status == 0) break;
    }
    train({"--run", run, "checkpoint.every=1"});
    expect_same_checkpoint("clean", run, 20);
    const auto metrics = lines(run + "/metrics.jsonl");
    ASSERT_EQ(metrics.size(), 20u) << run;
    for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(metrics[i]["step"], i + 1);
  }
}

TEST_F(Signals, AFullStderrChangesNoCode) {
  fs::remove(folder_ / "err");
  fs::create_symlink("/dev/full", folder_ / "err");
  const pid_t child = start({"--run", "run"}, {"FAKE_GATES=4"});
  wait_for_gate(child, 4);
  fs::remove(folder_ / "err");
  ::kill(child, SIGTERM);
  open_gate(4);
  EXPECT_EQ(finish(child).status, 75);
  EXPECT_EQ(lines("run/metrics.jsonl").back()["step"], 4);
  train({"--run", "run"});
  expect_same_checkpoint("clean", "run", 20);
}

TEST_F(Signals, ABrokenLogPipeDoesNotEndARun) {
  const fs::path script = folder_ / "script";
  std::ofstream(script) << "cd " << folder_.string() << " && { " << FAKE_TRAINER
                        << " --base data --run piped; echo $? > status; } | true\n";
  ASSERT_EQ(std::system(("sh " + script.string()).c_str()), 0);
  EXPECT_EQ(read_file(folder_ / "status"), "0\n");
  expect_same_checkpoint("clean", "piped", 20);
}

}  // namespace
}  // namespace llmc::fake
