// Rollbacks: a run that goes back is one that resumes there, and goes only where it may resume.
#include "checkpoint/train_state.h"
#include "runs.h"

namespace llmc::fake {
namespace {

class Rollbacks : public Runs {
 protected:
  void SetUp() override {
    Runs::SetUp();
    write_shard(folder_ / "data/more.bin", 81, 4);
  }
  /// Words of a run that goes back after `limit` skipped updates.
  static Words back(const std::string& run, const Words& more = {}, int limit = 2) {
    Words words = {"--run", run, "guards.rollback=true", "guards.limit=" + std::to_string(limit)};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  /// Trains two runs up to phase 2.
  void train_phase_1() {
    train({"--run", "run", "--steps", "5"});
    fs::copy(folder_ / "run", folder_ / "killed", fs::copy_options::recursive);
  }
  TrainState state(const std::string& run, int step) const {
    return parse_train_state(checkpoint(run, step).at("state.json"));
  }
  /// Kills the run within the `step`-th optimizer step of its process.
  void kill_in(int step, const Words& words, Words environment) {
    environment.push_back("FAKE_GATES=" + std::to_string(step));
    const pid_t child = start(words, environment);
    wait_for_gate(child, step);
    ::kill(child, SIGKILL);
    EXPECT_EQ(finish(child).status, 128 + SIGKILL);
    close_gate(step);
  }
  void refuse(const Words& words, const Words& environment, const test::Facts& facts) {
    const Result result = run(words, environment);
    EXPECT_EQ(result.status, 7) << result.out << result.err;
    EXPECT_TRUE(test::has_facts(result.err, facts)) << result.err;
    EXPECT_FALSE(contains(result.err, "rolls back to")) << result.err;
  }
};

const Words kPhases = {"FAKE_TRAINER_OF=phases"};

Words phases_and(const std::string& environment) { return {kPhases[0], environment}; }

TEST_F(Rollbacks, DoNotPassTheBeginningOfASchedule) {
  train({"--run", "run", "--steps", "11"}, {"FAKE_SKIP=9,10"});
  refuse(back("run", {"schedule.from_step=11", "schedule.warmup_steps=0"}, 3), {"FAKE_SKIP=2"},
         {"3 of the last", "step-00000005", "before step 9", "schedule.from_step 11", "past step 5"});
  EXPECT_EQ(checkpoint("run", 11).size(), 6u) << "nothing is removed";
  for (const Json& line : lines("run/metrics.jsonl")) EXPECT_GT(line["lr"], 0);
}

TEST_F(Rollbacks, DoNotReadASourceTooOften) {
  const Words mixed = {"data.train.path=", "data.train.web={path: data/train-0.bin, weight: 3}",
                       "data.train.code={path: data/train-1.bin, weight: 1, most_epochs: 2}"};  // as in 20 steps
  refuse(back("run", mixed), {"FAKE_SKIP=9,10"},
         {"2 of the last", "step-00000005", "data.train.code", "most_epochs 2", "15 steps fit"});
  train(back("run", mixed));
  // The phase ends at step 13, and the run passes the limit after that.
  train({"--run", "phases", "--steps", "5", mixed[0], mixed[1], mixed[2]});
  refuse(back("phases", {mixed[0], mixed[1], mixed[2]}), phases_and("FAKE_SKIP=2,3"),
         {"2 of the last", "step-00000005", "data.train.code", "most_epochs 2", "17 steps fit"});
}

TEST_F(Rollbacks, KeepWhatAStartWasAllowed) {
  train({"--run", "run", "--steps", "5"});
  const Words words = back("run", {"seed=7", "--steps", "10"});
  Words allowed = words;
  allowed.insert(allowed.end(), {"--allow", "seed", "--allow", "model.rope_theta"});
  const Result result = train(allowed, {"FAKE_TRAINER_OF=other_model", "FAKE_SKIP=3,4"});
  EXPECT_TRUE(contains(result.err, "rolls back to step 5")) << result.err;
  EXPECT_EQ(state("run", 10).seed, 7u);
  EXPECT_NE(state("run", 10).model_fingerprint, state("run", 5).model_fingerprint);
  train(back("run", {"seed=7"}), {"FAKE_TRAINER_OF=other_model"});
}

/// The second start begins within the phase.
TEST_F(Rollbacks, ToABorderBeginTheWindowAnew) {
  train({"--run", "run", "--steps", "5"});
  const Words environment = phases_and("FAKE_SKIP=1");  // steps 6 and 8
  train(back("run", {"checkpoint.every=5", "--steps", "7"}), environment);
  fs::copy(folder_ / "run", folder_ / "killed", fs::copy_options::recursive);
  const Result result = train(back("run", {"checkpoint.every=5"}), environment);
  EXPECT_TRUE(contains(result.err, "rolls back to step 5")) << result.err;
  EXPECT_EQ(state("run", 10).guard.losses.size(), 5u) << "those of phase 2";
  kill_in(3, back("killed", {"checkpoint.every=5"}), environment);
  train(back("killed", {"checkpoint.every=5"}), kPhases);
  for (const int step : {10, 15, 20}) expect_same_checkpoint("run", "killed", step);
}

/// Step 7 was of phase 1 when it was trained, and is of phase 2 for the trainer that goes back to it.
TEST_F(Rollbacks, ToAMovedBorderBeginTheWindowAnew) {
  train({"--run", "run", "--steps", "7"});
  fs::copy(folder_ / "run", folder_ / "killed", fs::copy_options::recursive);
  const Words environment = phases_and("FAKE_SKIP=1,2");
  const Result result = train(back("run", {"checkpoint.every=5"}), environment);
  EXPECT_TRUE(contains(result.err, "rolls back to step 7")) << result.err;
  EXPECT_EQ(state("run", 10).guard.losses.size(), 3u) << "those of phase 2";
  kill_in(4, back("killed", {"checkpoint.every=5"}), environment);
  train(back("killed", {"checkpoint.every=5"}), kPhases);
  for (const int step : {10, 15, 20}) expect_same_checkpoint("run", "killed", step);
}

TEST_F(Rollbacks, ToAnEarlierPhaseOutliveAKill) {
  train_phase_1();
  const Words environment = phases_and("FAKE_SKIP=9,10");  // steps 14 and 15
  const Result result = train(back("run"), environment);
  EXPECT_TRUE(contains(result.err, "rolls back to step 5")) << result.err;
  kill_in(12, back("killed"), environment);
  train(back("killed"), kPhases);
  for (const Json& line : lines("run/history.jsonl"))
    EXPECT_TRUE(line["step"] != 5 || contains(line["checkpoint"], "step-00000005")) << line;
  EXPECT_EQ(state("killed", 15).guard.rollbacks, 1);
  for (const int step : {15, 20}) expect_same_checkpoint("run", "killed", step);
}

TEST_F(Rollbacks, ToOtherDataOutliveAKill) {
  train_phase_1();
  const Words environment = phases_and("FAKE_SKIP=3,9,10");  // steps 8, 14 and 15
  const auto words = [](const std::string& run) { return back(run, {"checkpoint.every=3"}, 3); };
  const Result result = train(words("run"), environment);
  EXPECT_TRUE(contains(result.err, "rolls back to step 6")) << result.err;
  kill_in(12, words("killed"), environment);
  train(words("killed"), kPhases);
  EXPECT_EQ(state("killed", 9).guard.rollbacks, 1);
  for (const int step : {9, 12, 15, 20}) expect_same_checkpoint("run", "killed", step);
}

TEST_F(Rollbacks, OutliveAKillInAFolderThatIsMoved) {
  train(back("run"), {"FAKE_SKIP=8,9"});
  kill_in(11, back("killed"), {"FAKE_SKIP=8,9"});
  fs::rename(folder_ / "killed", folder_ / "moved");
  train(back("moved"));
  expect_same_checkpoint("run", "moved", 20);
}

TEST_F(Rollbacks, KeepWhatWasToldOfAPlateau) {
  const Words still = {"optimizer.lr=0", "guards.plateau=16"}, skips = {"FAKE_SKIP=18,19"};
  const Result result = train(back("run", still), skips);
  const auto told = result.err.find("(guards.plateau)");
  EXPECT_TRUE(told < result.err.find("rolls back to step 15")) << result.err;
  EXPECT_EQ(result.err.find("(guards.plateau)", told + 1), std::string::npos) << "once";
  kill_in(20, back("killed", still), skips);
  EXPECT_EQ(train(back("killed", still)).err, "");
  expect_same_checkpoint("run", "killed", 20);
}

}  // namespace
}  // namespace llmc::fake
