// Run folders that lost their checkpoints: a run that saved never restarts from the beginning by itself, and no curve
// is deleted.
#include <fcntl.h>
#include <sys/stat.h>

#include "error.h"
#include "runs.h"
#include "trainer/startup/saved_model.h"
#include "trainer/startup/values.h"

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

/// The second start is held where it reports its values, after it has found no run: its output is a full pipe.
TEST_F(LostCheckpoints, ARunThatAnotherHasBegunMeanwhileIsNotBegunAnew) {
  std::string prompts = "sampling.prompts=[";
  for (int i = 0; i < 3000; ++i) prompts += "\"1\", ";
  ASSERT_EQ(::mkfifo((folder_ / "out").c_str(), 0600), 0);
  const int pipe = ::open((folder_ / "out").c_str(), O_RDWR | O_CLOEXEC);  // waits for no writer
  ASSERT_LT(::fcntl(pipe, F_SETPIPE_SZ, 4096), static_cast<int>(prompts.size()));
  const pid_t second = start({"--run", "run", "seed=7", "--steps", "3", prompts + "\"2\"]"});
  char said;
  ASSERT_EQ(::read(pipe, &said, 1), 1);
  fs::rename(folder_ / "out", folder_ / "pipe");
  fs::rename(folder_ / "err", folder_ / "second");
  train({"--run", "run", "--steps", "5"});
  const std::string history = read_file(folder_ / "run/history.jsonl");
  ::close(pipe);
  EXPECT_EQ(finish(second).status, 6);
  EXPECT_TRUE(test::has_facts(read_file(folder_ / "second"), {"another trainer", "'run'", "Start it again"}));
  EXPECT_EQ(read_file(folder_ / "run/history.jsonl"), history);
  EXPECT_TRUE(checkpoint("run", 3).empty());
}

TEST_F(LostCheckpoints, WeightsThatRetentionRemovesAreChosenAgain) {
  train({"--run", "run", "--steps", "15"});
  const fs::path run = folder_ / "run";
  const spec::Spec spec = read_spec(read_file(run / "spec.yaml"), run).spec;
  std::vector<fs::path> used;
  const auto use = [&](const SavedModel& saved) {
    used.push_back(saved.folder.filename());
    if (used.size() == 3) return;
    fs::remove_all(saved.folder);
    throw Failure(Exit::checkpoint, "a file is missing");
  };
  use_weights(run, spec, {}, use);
  EXPECT_EQ(used, (std::vector<fs::path>{"step-00000015", "step-00000010", "step-00000005"}));
  used.clear();
  EXPECT_THROW(use_weights(run / "checkpoints/step-00000005", spec, {}, use), Failure) << "it was asked for by name";
  EXPECT_EQ(used.size(), 1u);
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
