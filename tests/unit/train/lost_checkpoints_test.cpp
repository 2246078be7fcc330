// Run folders that lost their checkpoints: a run that saved never restarts from the beginning by itself, and no curve
// is deleted.
#include "runs.h"

namespace llmc::fake {
namespace {

class LostCheckpoints : public Runs {
 protected:
  void refused(const Words& words, const test::Facts& reason) {
    const Result result = run(words);
    EXPECT_EQ(result.status, 6) << result.out << result.err;
    EXPECT_TRUE(test::has_facts(result.err, reason));
  }
};

TEST_F(LostCheckpoints, ARunThatSavedDoesNotBeginAnew) {
  train({"--run", "run", "--steps", "7"});
  const std::string metrics = read_file(folder_ / "run/metrics.jsonl");
  fs::rename(folder_ / "run/checkpoints", folder_ / "away");
  const test::Facts said = {"'run'", "step 7", "(metrics.jsonl", "step 7)", "'run/checkpoints'", "--run", "'run'"};
  refused({"--run", "run", "--steps", "2"}, said);
  fs::create_directory(folder_ / "run/checkpoints");
  refused({"--run", "run", "--batches", "3"}, said);
  for (const char* log : {"metrics.jsonl", "samples.jsonl"}) fs::remove(folder_ / "run" / log);
  refused({"--run", "run", "--resume", "none"}, {"'run'", "--resume none"});
  std::ofstream(folder_ / "run/metrics.jsonl") << metrics;
  fs::remove(folder_ / "run/checkpoints");
  fs::rename(folder_ / "away", folder_ / "run/checkpoints");
  train({"--run", "run"});
  EXPECT_EQ(lines("run/metrics.jsonl").size(), 20u);
  train({"--run", "clean"});
  expect_same_checkpoint("clean", "run", 20);
}

TEST_F(LostCheckpoints, AFolderOfAnOlderLlmcIsKnownByItsCheckpointsAndItsHistory) {
  train({"--run", "run", "--steps", "7"});
  fs::remove(folder_ / "run/state/saved");
  train({"--run", "run", "--steps", "7"});  // no step to train, but recorded
  EXPECT_EQ(read_file(folder_ / "run/state/saved"), "7\n");
  train({"--run", "run", "--steps", "9"});
  fs::remove(folder_ / "run/state/saved");
  fs::remove_all(folder_ / "run/checkpoints");
  refused({"--run", "run"}, {"'run'", "step-00000007", "'run/checkpoints'"});
}

TEST_F(LostCheckpoints, ARunThatBeganFromAnothersDoesNotBeginAnew) {
  train({"--run", "a", "--steps", "5"});
  train({"--run", "b", "--resume", "a", "--steps", "8", "--no-final-checkpoint"});
  append_torn_line("b/history.jsonl");
  refused({"--run", "b"},
          {"'b'", "'a/checkpoints/step-00000005'", "not saved", "--resume a/checkpoints/step-00000005"});
  train({"--run", "b", "--resume", "a"});
  train({"--run", "clean"});
  expect_same_checkpoint("clean", "b", 20);
}

TEST_F(LostCheckpoints, LogsOfAStartThatSavedNothingAreSetAside) {
  train({"--run", "run", "--steps", "3", "--no-final-checkpoint"});
  const std::string metrics = read_file(folder_ / "run/metrics.jsonl");
  ASSERT_EQ(lines("run/metrics.jsonl").size(), 3u);
  const Result anew = train({"--run", "run", "--steps", "2", "--no-final-checkpoint"});
  EXPECT_TRUE(contains(anew.err, "run/set-aside-1'")) << anew.err;
  EXPECT_EQ(read_file(folder_ / "run/set-aside-1/metrics.jsonl"), metrics);
  EXPECT_FALSE(fs::is_empty(folder_ / "run/set-aside-1/tensorboard"));
  EXPECT_EQ(lines("run/metrics.jsonl").size(), 2u);
  const Result again = train({"--run", "run"});
  EXPECT_TRUE(contains(again.err, "run/set-aside-2'")) << again.err;
  EXPECT_EQ(lines("run/set-aside-2/metrics.jsonl").size(), 2u);
  EXPECT_EQ(train({"--run", "run", "schedule.steps=21"}).err, "");
}

TEST_F(LostCheckpoints, ARunKilledBeforeItsFirstSaveBeginsAnewByItself) {
  const pid_t child = start({"--run", "run"}, {"FAKE_GATES=4"});
  wait_for_gate(child, 4);
  ::kill(child, SIGKILL);
  EXPECT_EQ(finish(child).status, 128 + SIGKILL);
  train({"--run", "run"});
  train({"--run", "clean"});
  expect_same_checkpoint("clean", "run", 20);
}

}  // namespace
}  // namespace llmc::fake
