// Signals: every way to stop a run, and that it goes on from there to the same end.
#include "runs.h"

namespace llmc::fake {
namespace {

constexpr const char* kSlow = "FAKE_STEP_MS=25";

class Signals : public Runs {
 protected:
  void SetUp() override {
    Runs::SetUp();
    ::signal(SIGHUP, SIG_DFL);  // nohup would have it ignored
    train({"--run", "clean"});
  }
};

TEST_F(Signals, StopSaveAndResume) {
  for (const auto& [signal, name] : {std::pair{SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"}, {SIGHUP, "SIGHUP"}, {SIGUSR2, "SIGUSR2"}}) {
    const std::string run = name;
    const pid_t child = start({"--run", run, "--resume=none"}, {kSlow});
    wait_for_lines(run, 7);
    ::kill(child, signal);
    const Result stopped = finish(child);
    EXPECT_EQ(stopped.status, 75) << stopped.err;
    EXPECT_TRUE(contains(stopped.err, std::string("stopped by ") + name + " after step ")) << stopped.err;
    EXPECT_TRUE(contains(stopped.err, "--run " + run) && !contains(stopped.err, "--resume")) << stopped.err;
    const auto last = lines(run + "/metrics.jsonl").back()["step"].get<int>();
    EXPECT_LT(last, 20);
    EXPECT_EQ(checkpoint(run, last).size(), 6u);
    train({"--run", run});
    expect_same_checkpoint("clean", run, 20);
  }
}

TEST_F(Signals, Usr1SavesAndGoesOn) {
  const pid_t child = start({"--run", "run", "checkpoint.every=0"}, {kSlow});
  wait_for_lines("run", 3);
  ::kill(child, SIGUSR1);
  EXPECT_EQ(finish(child).status, 0);
  int saves = 0;
  for (const auto& entry : fs::directory_iterator(folder_ / "run/checkpoints")) saves += entry.is_directory();
  EXPECT_EQ(saves, 2);  // the one that was asked for, and the last
  expect_same_checkpoint("clean", "run", 20);
}

TEST_F(Signals, TheSecondOneStopsAtOnce) {
  const pid_t child = start({"--run", "run"}, {"FAKE_STEP_MS=1500"});
  wait_for_lines("run", 1);
  ::kill(child, SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto begin = std::chrono::steady_clock::now();
  ::kill(child, SIGINT);
  EXPECT_EQ(finish(child).status, 128 + SIGINT);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(700));  // the step would take longer
  EXPECT_EQ(checkpoint("run", 1).size() + checkpoint("run", 2).size(), 0u);
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
