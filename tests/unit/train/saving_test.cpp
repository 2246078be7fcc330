// Checkpoints written during training: content, schedule, place, and the effects of failures and kills.
#include <random>

#include "runs.h"
#include "spec/length/schedule.h"

namespace llmc::fake {
namespace {

class Saving : public Runs {
 protected:
  Json json(const fs::path& file) const { return Json::parse(read_file(folder_ / file)); }
  std::vector<int> steps_in(const fs::path& run) const {
    std::vector<int> steps;
    for (const auto& entry : fs::directory_iterator(folder_ / run / "checkpoints"))
      if (entry.is_directory()) steps.push_back(std::stoi(entry.path().filename().string().substr(5)));
    std::sort(steps.begin(), steps.end());
    return steps;
  }
};

TEST_F(Saving, BesideTrainingOrNotTheCheckpointsAreTheSame) {
  train({"--run", "beside", "checkpoint.every=1"});
  train({"--run", "waits", "checkpoint.every=1", "checkpoint.asynchronous=false"});
  train({"--run", "read-back", "checkpoint.every=1", "checkpoint.verify=true"});
  for (int step = 1; step <= 20; ++step) {
    expect_same_checkpoint("beside", "waits", step);
    expect_same_checkpoint("beside", "read-back", step);
  }
}

TEST_F(Saving, TheBestIsSavedAndKeptAlsoAfterAResume) {
  const Words best = {"checkpoint.best=validation", "checkpoint.every=0", "checkpoint.keep_last=1",
                      "evaluation.every=1",         "optimizer.lr=0.5",   "--run"};
  const auto with = [&](const std::string& run, const Words& more = {}) {
    Words words = best;
    words.push_back(run);
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  train(with("whole"));
  const auto metrics = lines("whole/metrics.jsonl");
  std::size_t lowest = 0;
  for (std::size_t i = 0; i < metrics.size(); ++i)
    if (metrics[i]["val_loss"] < metrics[lowest]["val_loss"]) lowest = i;
  ASSERT_LT(lowest + 1, metrics.size()) << "the last step is the best, which shows nothing";
  ASSERT_GT(lowest, 0u);
  const Json record = json("whole/checkpoints/best.json");
  EXPECT_EQ(record["step"], lowest + 1);
  EXPECT_EQ(record["validation"], "validation");
  EXPECT_EQ(record["loss"], metrics[lowest]["val_loss"]);
  EXPECT_EQ(steps_in("whole"), (std::vector<int>{static_cast<int>(lowest) + 1, 20}));
  train(with("parts", {"--steps", "12"}));
  train(with("parts"));
  EXPECT_EQ(json("parts/checkpoints/best.json"), record);
  EXPECT_EQ(steps_in("parts"), steps_in("whole"));
}

TEST_F(Saving, ADamagedRecordOfTheBestEndsAResumeThatNeedsIt) {
  const Words best = {"--run", "run", "checkpoint.best=validation", "evaluation.every=1", "--steps", "2"};
  train(best);
  const Json record = json("run/checkpoints/best.json");
  const fs::path file = folder_ / "run/checkpoints/best.json";
  const auto write = [&](const std::string& text) { std::ofstream(file) << text; };
  write("{");
  train({"--run", "run", "checkpoint.best=none", "--steps", "3"});  // its checkpoint records none
  const Result result = run({"--run", "run", "checkpoint.best=validation", "--steps", "4"});
  EXPECT_EQ(result.status, static_cast<int>(Exit::checkpoint));
  EXPECT_TRUE(test::has_facts(result.err, {"best.json", "Remove this file"}));
  write(record.dump());
  train({"--run", "run", "checkpoint.best=validation", "optimizer.lr=0", "--steps", "4"});
  write("{");
  train({"--run", "run", "checkpoint.best=validation", "optimizer.lr=0", "--steps", "5"});
  EXPECT_EQ(json("run/checkpoints/best.json"), json("run/checkpoints/step-00000005/state.json")["best"])
      << "the checkpoint's own record is written again";
}

TEST_F(Saving, TheBestIsThatOfTheSetThatIsNamed) {
  const std::string other = "data.validation.train=" + (folder_ / "data/train-*.bin").string();
  train({"--run", "run", other, "checkpoint.best=train", "checkpoint.every=0", "evaluation.every=1", "--steps", "3"});
  const Json record = json("run/checkpoints/best.json");
  EXPECT_EQ(record["validation"], "train");
  const Json line = lines("run/metrics.jsonl")[record["step"].get<std::size_t>() - 1];
  EXPECT_EQ(record["loss"], line["val_loss/train"]);
  EXPECT_NE(record["loss"], line["val_loss"]);
  const Result unknown = run({"--run", "run", "checkpoint.best=trai"});
  EXPECT_EQ(unknown.status, 1);
  EXPECT_TRUE(contains(unknown.err, "did you mean train?")) << unknown.err;
  const Result gone = run({"--run", "run", "data.validation.train="});
  EXPECT_TRUE(test::has_facts(gone.err, {"no validation set", "\"train\"", "checkpoint.best"}));
}

TEST_F(Saving, AMirrorHasEveryOtherCheckpointAndARunGoesOnFromIt) {
  const Words mirrored = {"--run", "run", "checkpoint.mirror=" + (folder_ / "mirror").string(),
                          "checkpoint.mirror_every=2"};
  const auto until = [&](const char* step) {
    Words words = mirrored;
    words.insert(words.end(), {"--steps", step});
    return words;
  };
  train(until("12"));  // this step is saved, and lies between two copies
  EXPECT_EQ(steps_in("mirror"), (std::vector<int>{10}));
  train(until("15"));
  EXPECT_EQ(steps_in("mirror"), (std::vector<int>{10}));
  train({"--run", "other", "--resume", "mirror"});
  train(mirrored);
  EXPECT_EQ(steps_in("run"), (std::vector<int>{5, 10, 12, 15, 20}));
  EXPECT_EQ(steps_in("mirror"), (std::vector<int>{10, 20}));
  expect_same_checkpoint("run", "other", 20);
}

TEST_F(Saving, AMirrorThatFailsDoesNotStopTraining) {
  const pid_t child = start({"--run", "run", "checkpoint.mirror=" + (folder_ / "mirror").string()}, {"FAKE_GATES=3"});
  wait_for_gate(child, 3);
  fs::remove_all(folder_ / "mirror");
  std::ofstream(folder_ / "mirror") << "in the way";
  open_gate(3);
  const Result result = finish(child);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(contains(result.err, "mirror") && contains(result.err, "raining continues")) << result.err;
  EXPECT_EQ(steps_in("run"), (std::vector<int>{5, 10, 15, 20}));
  const Result inside = run({"--run", "new", "checkpoint.mirror=" + (folder_ / "new/copies").string()});
  EXPECT_EQ(inside.status, 6);
  EXPECT_TRUE(test::has_facts(inside.err, {"checkpoint.mirror", "/new/copies'", "/new'", "inside"}));
}

TEST_F(Saving, ADeadlineStopsInTimeAndTheRunGoesOn) {
  train({"--run", "clean"});
  // After the save of step 10, the one of step 5 is removed in 0.5 s. With twice that time, 6.2 s are reserved, else
  // 5.2 s, which is enough for all steps.
  std::ofstream(folder_ / "slow").close();
  const Result stopped = run({"--run", "run", "--deadline", "8s", "checkpoint.keep_last=1"},
                             {"FAKE_STEP_MS=100", std::string("LD_PRELOAD=") + LLMC_FAIL_SHIM, "LLMC_FAIL_SLOW=slow"});
  EXPECT_EQ(stopped.status, 75) << stopped.err;
  EXPECT_TRUE(contains(stopped.err, "stopped by --deadline after step ")) << stopped.err;
  const auto last = lines("run/metrics.jsonl").back()["step"].get<int>();
  EXPECT_LT(last, 20);
  EXPECT_EQ(checkpoint("run", last).size(), 6u);
  EXPECT_EQ(run({"--run", "run", "--deadline", "1s"}).status, 75) << "no time at all is one step";
  EXPECT_EQ(lines("run/metrics.jsonl").back()["step"], last + 1);
  train({"--run", "run", "--deadline", "1d2h3m4s"});
  expect_same_checkpoint("clean", "run", 20);
  for (const char* wrong : {"3", "h", "50m3h", "-1s", "0s", "3 h", "99999999999s"}) {
    const Result refused = run({"--run", "never", "--deadline", wrong});
    EXPECT_EQ(refused.status, 2) << wrong;
    EXPECT_TRUE(contains(refused.err, "3h50m")) << refused.err;
  }
}

TEST_F(Saving, AScheduleBeginsAnewFromAStep) {
  train({"--run", "run", "--steps", "10"});
  const Words anew = {
      "--run", "run", "schedule.from_step=10", "schedule.steps=40", "schedule.warmup_steps=4", "optimizer.lr=0.02"};
  train(anew);
  const auto metrics = lines("run/metrics.jsonl");
  ASSERT_EQ(metrics.size(), 40u);
  for (int i = 10; i < 40; ++i)
    EXPECT_EQ(metrics[static_cast<std::size_t>(i)]["lr"],
              learning_rate({spec::ScheduleKind::cosine, 30, 4, 0.1, 0.2}, 0.02, i - 10));
  EXPECT_EQ(lines("run/history.jsonl").back()["step"], 10);
  EXPECT_TRUE(contains(lines("run/history.jsonl").back()["changed"].dump(), "schedule.from_step"));
  const Result late = run({"--run", "new", "schedule.from_step=3"});
  EXPECT_EQ(late.status, 2);
  EXPECT_TRUE(contains(late.err, "schedule.from_step=0")) << late.err;
  EXPECT_EQ(run({"--run", "new", "schedule.from_step=20"}).status, 1) << "nothing is left of 20 steps";
}

/// Steps 6 to 13 are of the phase in which this process starts, and 14 to 20 of the next one.
TEST_F(Saving, AFailedSaveEndsNoPhase) {
  write_shard(folder_ / "data/more.bin", 61, 4);
  train({"--run", "begun", "--steps", "5"});
  const auto fails_around_step_13 = [&](const std::string& run, int from, const Words& more) {
    fs::copy(folder_ / "begun", folder_ / run, fs::copy_options::recursive);
    Words words = {"--run", run, "checkpoint.asynchronous=false"};
    words.insert(words.end(), more.begin(), more.end());
    const fs::path checkpoints = folder_ / run / "checkpoints", aside = folder_ / "aside";
    const std::string gates = "FAKE_GATES=" + std::to_string(from - 5) + ",9";
    const pid_t child = start(words, {"FAKE_TRAINER_OF=phases", gates});
    wait_for_gate(child, from - 5);
    fs::rename(checkpoints, aside);
    std::ofstream(checkpoints) << "in the way";
    open_gate(from - 5);
    wait_for_gate(child, 9);
    fs::remove(checkpoints);
    fs::rename(aside, checkpoints);
    open_gate(9);
    const Result result = finish(child);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_TRUE(contains(result.err, "CHECKPOINT FAILED at step 1")) << result.err;
    EXPECT_TRUE(contains(result.err, "tries to save at the next interval")) << result.err;
    for (const int gate : {from - 5, 9}) close_gate(gate);
    return steps_in(run);
  };
  EXPECT_EQ(fails_around_step_13("before", 11, {"checkpoint.every=4"}), (std::vector<int>{5, 8, 16, 20}));
  EXPECT_EQ(fails_around_step_13("at", 13, {"checkpoint.every=13", "--no-final-checkpoint"}), (std::vector<int>{5, 20}))
      << "the last step makes up for a save of the phase before";
}

TEST_F(Saving, EveryCallOfASaveBesideTrainingMayFail) {
  train({"--run", "clean"});
  const Words words = {"--run", "run", "evaluation.every=0", "sampling.every=0"};
  const std::string shim = std::string("LD_PRELOAD=") + LLMC_FAIL_SHIM;
  int failed = 0, survived = 0;
  // A failed close of a fully written log may pass without a message, so one silent failure does not end the loop.
  for (int n = 1, quiet = 0; quiet < 2; n += 5) {
    fs::remove_all(folder_ / "run");
    const Result result = run(words, {shim, "LLMC_FAIL_MODE=EIO", "LLMC_FAIL_CALL=" + std::to_string(n)});
    quiet = result.status == 0 && result.err.empty() ? quiet + 1 : 0;
    if (quiet) continue;
    result.status == 0 ? ++survived : ++failed;
    EXPECT_TRUE(result.status == 0 || result.status == 6) << n << ": " << result.status << result.err;
    train(words);
    expect_same_checkpoint("clean", "run", 20);
  }
  EXPECT_GE(survived, 20);
  EXPECT_GE(failed, 1);
}

TEST_F(Saving, KilledInAnyPhaseOfASaveTheRunResumesExactly) {
  train({"--run", "clean", "--steps", "6"});
  const Words words = {"--run", "run", "--steps", "6", "checkpoint.every=3", "evaluation.every=0", "sampling.every=0"};
  const std::string shim = std::string("LD_PRELOAD=") + LLMC_FAIL_SHIM;
  int killed = 0;
  for (int n = 1;; n += 2) {
    fs::remove_all(folder_ / "run");
    const Result result = run(words, {shim, "LLMC_FAIL_MODE=KILL", "LLMC_FAIL_CALL=" + std::to_string(n)});
    if (result.status == 0) break;
    ++killed;
    EXPECT_EQ(result.status, 128 + SIGKILL) << n << result.err;
    train(words);
    expect_same_checkpoint("clean", "run", 6);
  }
  EXPECT_GE(killed, 40);
}

TEST_F(Saving, AHundredKillsInAThousandSteps) {
  const Words words = {"schedule.steps=1000", "checkpoint.every=5", "evaluation.every=100", "sampling.every=0",
                       "metrics.every=50"};
  const auto with = [&](const std::string& run) {
    Words all = words;
    all.insert(all.end(), {"--run", run});
    return all;
  };
  train(with("clean"));
  std::mt19937 random(7);
  int kills = 0;
  for (; kills < 100; ++kills) {
    const pid_t child = start(with("run"), {"FAKE_STEP_MS=3"});
    std::this_thread::sleep_for(std::chrono::milliseconds(15 + random() % 30));
    ::kill(child, SIGKILL);
    const int status = finish(child).status;
    if (status == 0) break;
    ASSERT_EQ(status, 128 + SIGKILL);
  }
  EXPECT_EQ(kills, 100) << "the run ended before it was killed so often";
  train(with("run"));
  expect_same_checkpoint("clean", "run", 1000);
  const auto clean = lines("clean/metrics.jsonl"), killed = lines("run/metrics.jsonl");
  ASSERT_EQ(killed.size(), 1000u);
  for (std::size_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(killed[i]["step"], i + 1);
    EXPECT_EQ(killed[i]["loss"], clean[i]["loss"]);
  }
}

TEST_F(Saving, ADiskTooSmallForKeepLastIsToldAtStart) {
  const std::string shim = std::string("LD_PRELOAD=") + LLMC_FAIL_SHIM;
  const auto said = [&](const Words& more) {
    Words words = {"--run", "run", "checkpoint.every=1"};
    words.insert(words.end(), more.begin(), more.end());
    return train(words, {shim, "LLMC_FAIL_FREE=3500000"}).err;  // three checkpoints of a MiB
  };
  EXPECT_EQ(said({"checkpoint.keep_last=2", "--steps", "4"}), "");
  const std::string two = said({"checkpoint.keep_last=4", "checkpoint.mirror=mirror", "--steps", "5"});
  EXPECT_TRUE(contains(two, "mirror/checkpoints' has space for 3 more checkpoints")) << two;
  EXPECT_TRUE(contains(two, "checkpoint.keep_last=4 takes 4 more")) << two;
  EXPECT_FALSE(contains(two, "run/checkpoints' has")) << "two are there" << two;
  // One of three existing checkpoints is kept forever and frees no space.
  const std::string kept =
      said({"checkpoint.keep_last=5", "checkpoint.keep_every=3", "checkpoint.mirror=", "--steps", "6"});
  EXPECT_TRUE(contains(kept, "run/checkpoints' has space for 3 more checkpoints") &&
              contains(kept, "checkpoint.keep_last=5 with keep_every=3 takes 7 more"))
      << kept;
}

}  // namespace
}  // namespace llmc::fake
