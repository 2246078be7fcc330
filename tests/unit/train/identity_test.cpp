// Identity of a run: its model, its computation, its values; which of them a resume keeps, reports and refuses.
#include <sstream>

#include "runs.h"

namespace llmc::fake {
namespace {

class Identity : public Runs {
 protected:
  std::vector<Json> history(const std::string& run) { return lines(run + "/history.jsonl"); }
  Result refuse(const Words& arguments, const test::Facts& facts, const Words& environment = {}) {
    const Result result = run(arguments, environment);
    EXPECT_EQ(result.status, 6) << result.out << result.err;
    EXPECT_TRUE(test::has_facts(result.err, facts));
    return result;
  }
  /// Fingerprint of a trainer, the second word of --version.
  std::string build_of(const Words& environment = {}) {
    std::istringstream words(train({"--version"}, environment).out);
    std::string build;
    words >> build >> build;
    return build;
  }
  std::map<std::string, std::string> tree(const std::string& run) {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / run))
      if (entry.is_regular_file()) files[entry.path()] = read_file(entry.path());
    return files;
  }
};

TEST_F(Identity, TheFolderSaysWhatRuns) {
  const Result first = train({"--run", "run", "--steps", "5", "optimizer.lr=0.01", "optimizer.betas=[0.5, 0.75]"});
  EXPECT_TRUE(test::has_facts(first.out, {"value   optimizer.lr=0.01 (", "0.05)"}));
  const std::string spec = read_file(folder_ / "run/spec.yaml");
  EXPECT_TRUE(contains(spec, "lr: 0.01\n") && contains(spec, "betas: [0.5, 0.75]\n")) << spec;
  EXPECT_TRUE(contains(spec, "path: \"../data/train-*.bin\"\n")) << "relative to the folder it stands in\n" << spec;
  const auto starts = history("run");
  ASSERT_EQ(starts.size(), 1u);
  EXPECT_EQ(starts[0]["step"], 0);
  EXPECT_EQ(starts[0]["changed"].size(), 0u);
  EXPECT_EQ(starts[0]["overrides"].size(), 2u);
  EXPECT_EQ(starts[0]["llmc"], "0.1.0");
  EXPECT_EQ(starts[0]["build"], build_of());
  EXPECT_EQ(starts[0]["threads"], 1);
  EXPECT_EQ(starts[0]["ranks"], 1);
  EXPECT_TRUE(contains(starts[0]["libraries"][0], "oneDNN")) << starts[0];
  for (const char* key : {"device", "arch", "model", "data", "tuned", "time", "checkpoint"})
    EXPECT_TRUE(starts[0].contains(key)) << key;
}

TEST_F(Identity, AResumeKeepsTheRunsValues) {
  train({"--run", "clean", "optimizer.lr=0.01"});
  train({"--run", "run", "--steps", "7", "optimizer.lr=0.01"});
  const Result again = train({"--run", "run"});
  EXPECT_FALSE(contains(again.out, "change ")) << again.out;
  EXPECT_TRUE(test::has_facts(again.out, {"value   optimizer.lr=0.01 (", "0.05)\nvalue   ", "keeps its own",
                                          "optimizer.lr. ", " optimizer.lr=0.05,", "--follow-spec"}));
  EXPECT_EQ(again.err, "");
  expect_same_checkpoint("clean", "run", 20);
  EXPECT_EQ(history("run")[1]["changed"].size(), 0u);
  EXPECT_EQ(history("run")[1]["step"], 7);
  train({"--run", "other", "--resume", "run", "--steps", "20"});  // nothing to do: the values came with the checkpoint
  train({"--run", "third", "--resume", "run/checkpoints/step-00000007"});
  expect_same_checkpoint("clean", "third", 20);
}

/// A run without held-out text has no interval of its own: when text returns, the trainer's holds.
TEST_F(Identity, HeldOutTextMayGoAndReturn) {
  train({"--run", "run", "--steps", "5"});
  const Result gone = train({"--run", "run", "--steps", "10", "data.validation.path="});
  EXPECT_FALSE(contains(gone.out, "keeps its own")) << gone.out;
  const Result without = train({"--run", "run", "--steps", "12"});
  EXPECT_TRUE(test::has_facts(without.out, {"keeps its own", "data.validation", "evaluation.every", "To take"}))
      << without.out;
  train({"--run", "run", "--steps", "17", "data.validation.path=" + (folder_ / "data/val.bin").string()});
  const auto steps = lines("run/metrics.jsonl");
  EXPECT_FALSE(steps[9].contains("val_loss"));
  EXPECT_TRUE(steps[14].contains("val_loss")) << "every 5 steps, as the trainer";
}

TEST_F(Identity, AResumeSaysEachValueThatChanges) {
  train({"--run", "run", "--steps", "7"});
  const Result changed = train({"--run", "run", "--steps", "9", "optimizer.lr=0.01", "checkpoint.every=3"});
  EXPECT_TRUE(contains(changed.out, "change  optimizer.lr 0.05 -> 0.01\n")) << changed.out;
  EXPECT_TRUE(contains(changed.out, "change  checkpoint.every 5 -> 3\n")) << changed.out;
  EXPECT_EQ(changed.err, "");
  EXPECT_EQ(history("run")[1]["changed"].dump(), R"({"checkpoint.every":["5","3"],"optimizer.lr":["0.05","0.01"]})");
  EXPECT_TRUE(contains(read_file(folder_ / "run/spec.yaml"), "lr: 0.01\n"));
  const Result back = train({"--run", "run", "optimizer.lr=0.05"});
  EXPECT_TRUE(contains(back.out, "change  optimizer.lr 0.01 -> 0.05\n")) << back.out;
}

/// The value is not in this command: it is kept from the run.
TEST_F(Identity, AKeptValueIsBlamedWithItsOrigin) {
  train({"--run", "run", "--steps", "5", "schedule.warmup_steps=8"});
  const test::Facts origin = {"warmup_steps 8", "7 steps", "\nschedule.warmup_steps 8 ",
                              (folder_ / "run/spec.yaml").string()};
  const Result refused = run({"--run", "run", "schedule.steps=7", "--allow", "schedule.steps"});
  EXPECT_NE(refused.status, 0);
  EXPECT_TRUE(test::has_facts(refused.err, origin));
  EXPECT_FALSE(contains(refused.err, "schedule.steps 20")) << refused.err;
  // Values on the command line have no other origin.
  EXPECT_FALSE(contains(run({"--run", "run", "schedule.warmup_steps=30"}).err, "the run keeps"));
  train({"--run", "short", "--steps", "5", "schedule.steps=10"});
  EXPECT_TRUE(test::has_facts(run({"--run", "short", "--steps", "15"}).err,
                              {"--steps 15", "past schedule.steps 10", "schedule.steps=15", "\nschedule.steps 10 ",
                               (folder_ / "short/spec.yaml").string()}));
}

TEST_F(Identity, AScheduleThatIsExtendedSaysItsJump) {
  const Words cosine = {
      "--run", "run", "--steps", "10", "schedule.kind=cosine", "schedule.steps=10", "schedule.warmup_steps=0"};
  train(cosine);
  const Result extended = train({"--run", "run", "schedule.steps=20", "--steps", "15"});
  EXPECT_TRUE(
      test::has_facts(extended.err, {"warning: schedule.steps 10 -> 20: ", "step 11", "schedule.from_step=10 "}));
  EXPECT_FALSE(contains(train({"--run", "run", "--steps", "16"}).err, "rate")) << "said once";
  EXPECT_FALSE(
      contains(train({"--run", "run", "--steps", "17", "schedule.steps=30", "schedule.from_step=16"}).err, "rate"))
      << "it is meant to";
  train({"--run", "decay", "--steps", "10", "schedule.kind=constant", "schedule.steps=10",
         "schedule.weight_decay=linear"});
  EXPECT_TRUE(
      test::has_facts(train({"--run", "decay", "schedule.steps=20", "--steps", "12"}).err,
                      {"warning: schedule.steps 10 -> 20: ", "weight decay", "step 11", "5.00e-01", "1.00e-01"}));
  // A constant rate stays the same, and a new peak is intended.
  train({"--run", "constant", "--steps", "5", "schedule.kind=constant", "schedule.steps=10"});
  EXPECT_EQ(train({"--run", "constant", "schedule.steps=12", "optimizer.lr=0.01"}).err, "");
  Words still = cosine;
  still.insert(still.end(), {"--run=still", "optimizer.lr=0"});
  still.erase(still.begin(), still.begin() + 2);
  train(still);
  EXPECT_EQ(train({"--run", "still", "schedule.steps=20", "--steps", "15"}).err, "") << "both rates are 0";
}

TEST_F(Identity, FollowSpecTakesTheTrainersValues) {
  const Words own = {"optimizer.lr=0.01", "optimizer.betas=[0.5, 0.75]", "checkpoint.every=3", "schedule.steps=19"};
  Words first = {"--run", "run", "--steps", "7"};
  first.insert(first.end(), own.begin(), own.end());
  train(first);
  const Result kept = train({"--run", "run", "--steps", "8", "checkpoint.every=4"});
  EXPECT_TRUE(test::has_facts(
      kept.out, {"add optimizer.lr=0.05 'optimizer.betas=[0.9, 0.95]' schedule.steps=20, ", "--follow-spec"}));
  // The command line overrides the trainer's values.
  const Result followed = train({"--run", "run", "--steps", "9", "--follow-spec", "optimizer.betas=[0.9, 0.99]"});
  for (const char* change : {"optimizer.lr 0.01 -> 0.05", "optimizer.betas [0.5, 0.75] -> [0.9, 0.99]",
                             "checkpoint.every 4 -> 5", "schedule.steps 19 -> 20"})
    EXPECT_TRUE(contains(followed.out, "change  " + std::string(change) + "\n")) << change << "\n" << followed.out;
  EXPECT_FALSE(contains(followed.out, "keeps its own")) << followed.out;
  EXPECT_TRUE(test::has_facts(followed.out, {"value   optimizer.betas=[0.9, 0.99] (", "[0.9, 0.95])"}));
  EXPECT_EQ(history("run")[2]["changed"].size(), 4u);
  EXPECT_FALSE(contains(train({"--run", "run", "--steps", "10"}).out, "change ")) << "the run has them from then on";
  // Guarded keys still need permission, and a new run has the trainer's values anyway.
  train({"--run", "guarded", "--steps", "5", "seed=1"});
  refuse({"--run", "guarded", "--follow-spec"}, {"seed 1", "42"});
  train({"--run", "guarded", "--steps", "6", "--follow-spec", "--allow", "seed"});
  EXPECT_EQ(train({"--run", "fresh", "--steps", "5", "--follow-spec"}).err, "");
  EXPECT_FALSE(contains(read_file(folder_ / "fresh/history.jsonl"), "optimizer.lr"));
}

TEST_F(Identity, AFinishedRunFollowsNoSpec) {
  train({"--run", "run", "optimizer.lr=0.01"});
  const Result again = run({"--run", "run", "--follow-spec"});
  EXPECT_EQ(again.status, 2) << again.out;
  EXPECT_TRUE(contains(again.err, "trained with optimizer.lr 0.01, not 0.05")) << again.err;
}

TEST_F(Identity, AStartThatDoesNothingWritesNothing) {
  train({"--run", "run", "--steps", "5"});
  const auto before = tree("run");
  train({"--run", "run", "--steps", "5"});
  EXPECT_EQ(run({"--run", "run", "--steps", "5", "optimizer.lr=0.01"}).status, 2);  // no step would use it
  EXPECT_TRUE(tree("run") == before);
  refuse({"--run", "run", "seed=1"}, "seed");
  EXPECT_TRUE(tree("run") == before);
  run({"--run", "new", "data.train.path=missing"});
  EXPECT_FALSE(fs::exists(folder_ / "new"));
}

TEST_F(Identity, AnotherMicroBatchGoesOnAndIsTold) {
  train({"--run", "clean"});
  train({"--run", "run", "--steps", "10"});
  const Result moved = train({"--run", "run"}, {"FAKE_TRAINER_OF=micro_batch_1"});
  EXPECT_TRUE(contains(moved.err, "batch.micro_batch 2 -> 1, build " + build_of() + " -> " +
                                      build_of({"FAKE_TRAINER_OF=micro_batch_1"}) + ": the run resumes"))
      << moved.err;
  EXPECT_EQ(history("run")[1]["changed"].dump(), R"({"batch.micro_batch":["2","1"]})");
  const auto clean = lines("clean/metrics.jsonl"), ours = lines("run/metrics.jsonl");
  ASSERT_EQ(ours.size(), 20u);
  for (std::size_t i = 0; i < 20; ++i)  // another order of fp32 sums
    EXPECT_NEAR(ours[i]["loss"].get<double>(), clean[i]["loss"].get<double>(), i < 10 ? 0 : 1e-4) << i;
  EXPECT_EQ(ours.back()["tokens"], clean.back()["tokens"]);
  EXPECT_FALSE(
      contains(train({"--run", "run", "schedule.steps=22"}, {"FAKE_TRAINER_OF=micro_batch_1"}).err, "micro_batch"))
      << "told once";
}

/// Kernels are compiled for the trainer's arch; its name in the spec differs in runs of an older llmc.
TEST_F(Identity, AnotherNameOfTheArchIsNoOtherTrainer) {
  train({"--run", "run", "--steps", "5"});
  std::string spec = read_file(folder_ / "run/spec.yaml");
  const std::size_t at = spec.find("[x86-64]");
  ASSERT_NE(at, std::string::npos) << spec;
  std::ofstream(folder_ / "run/spec.yaml") << spec.replace(at, 8, "[native]");
  EXPECT_EQ(train({"--run", "run", "--steps", "6"}).err, "");
}

TEST_F(Identity, AnotherLengthGoesOnInTheSameEpoch) {
  train({"--run", "clean", "schedule.steps=12"});
  train({"--run", "run", "schedule.steps=12", "--steps", "2"});
  const Result moved = train({"--run", "run"}, {"FAKE_TRAINER_OF=length_8"});
  EXPECT_TRUE(contains(moved.err, "batch.sequence_length 4 -> 8")) << moved.err;
  const auto ours = lines("run/metrics.jsonl");
  ASSERT_EQ(ours.size(), 12u);
  // A bigram model sees the same pairs in another order, so losses stay close.
  EXPECT_NEAR(ours[11]["loss"].get<double>(), lines("clean/metrics.jsonl")[11]["loss"].get<double>(), 0.4);
  EXPECT_EQ(ours[1]["tokens"], 32);
  const Json state = Json::parse(checkpoint("run", 5)["state.json"]);
  EXPECT_EQ(state["visited"].dump(), R"([{"samples":8,"sequence_length":4},{"samples":)" +
                                         std::to_string(state["visited"][1]["samples"].get<int>()) +
                                         R"(,"sequence_length":8}])");
  refuse({"--run", "run", "--resume", "none"}, {"'run'", "--resume none"}, {"FAKE_TRAINER_OF=length_8"});
}

TEST_F(Identity, AnotherModelIsRefused) {
  train({"--run", "run", "--steps", "5"});
  refuse({"--run", "run"}, {(folder_ / "run").string() + "'", "model.rope_theta 10000 -> 500"},
         {"FAKE_TRAINER_OF=other_model"});
  refuse({"--run", "new", "--resume", "run"}, "model.rope_theta 10000 -> 500", {"FAKE_TRAINER_OF=other_model"});
}

TEST_F(Identity, WhatIsGuardedGoesOnWhereItIsNamed) {
  train({"--run", "run", "--steps", "5"});
  refuse({"--run", "run", "schedule.steps=10"}, {"schedule.steps 20", "10", "--allow schedule.steps"});
  train({"--run", "run", "schedule.steps=10", "--steps", "6", "--allow", "schedule.steps"});
  refuse({"--run", "run", "data.seed=8"}, "--allow data.seed");
  train({"--run", "run", "data.seed=8", "--allow", "data.seed", "--steps", "7"});
  EXPECT_EQ(Json::parse(checkpoint("run", 7)["state.json"])["epoch"], 1) << "another order is another epoch";
  write_shard(folder_ / "data/train-0.bin", 61, 9);
  refuse({"--run", "run", "--allow", "data.seed"}, "--allow data.train.path");
  refuse({"--run", "run", "--allow", "data.seed"}, {"(changed 'train-0.bin' (61 tokens, 61 before))", "Restore"});
  fs::rename(folder_ / "data/train-1.bin", folder_ / "data/train-2.bin");
  write_shard(folder_ / "data/train-3.bin", 61, 8);
  refuse({"--run", "other", "--resume", "run", "--allow", "data.seed"},
         "changed 'train-0.bin' (61 tokens, 61 before), renamed 'train-1.bin' to 'train-2.bin', added 'train-3.bin'");
  EXPECT_EQ(history("run").front()["shards"].size(), 2u);
  EXPECT_FALSE(history("run").back().contains("shards")) << "listed once";
  train({"--run", "run", "--allow", "data.train.path", "--allow=seed", "seed=1", "--steps", "9"});
  EXPECT_EQ(Json::parse(checkpoint("run", 9)["state.json"])["epoch"], 2);
  EXPECT_EQ(train({"--run", "run"}).err, "") << "allowed once, it is the run's";
}

TEST_F(Identity, ACheckpointSaysHowItWasMade) {
  train({"--run", "run", "optimizer.lr=0.01"});
  const std::string spec = checkpoint("run", 20)["spec.yaml"];
  EXPECT_TRUE(contains(spec, "lr: 0.01\n") && contains(spec, "micro_batch: 2\n") && contains(spec, "vocab_size: 12\n"))
      << spec;
  for (const char* aside : {"name", "path", "every", "prompts", "budget"}) EXPECT_FALSE(contains(spec, aside)) << spec;
}

TEST_F(Identity, TheDefaultFolderIsBesideTheSpec) {
  train({"--steps", "5"});
  EXPECT_TRUE(fs::exists(folder_ / "data/runs/fake/checkpoints/step-00000005"));
  fs::create_directory(folder_ / "elsewhere");
  const std::string command =
      "cd " + (folder_ / "elsewhere").string() + " && " FAKE_TRAINER " --base ../data --steps 6 > ../out";
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_TRUE(contains(read_file(folder_ / "out"), "resumed at step 5"));
  EXPECT_FALSE(fs::exists(folder_ / "elsewhere/runs"));
}

TEST_F(Identity, TheTextOfASpecThatCannotBeRead) {
  train({"--run", "run", "--steps", "5"});
  std::ofstream(folder_ / "run/spec.yaml", std::ios::app) << "nonsense\n";
  refuse({"--run", "run"}, "run/spec.yaml' cannot be read: line");
}

TEST_F(Identity, ResumeFindsTheCheckpointsOfARun) {
  train({"--run", "a", "--steps", "11"});
  const Result result = train({"--run", "b", "--resume", "a"});
  EXPECT_TRUE(contains(result.out, "resumed at step 11")) << result.out;
  train({"--run", "clean"});
  expect_same_checkpoint("clean", "b", 20);
  fs::create_directories(folder_ / "empty/checkpoints");
  refuse({"--run", "c", "--resume", "empty"}, {"'empty'", "no complete checkpoint"});
}

TEST_F(Identity, ARunThatCannotBeSavedIsRefusedAtStart) {
  fs::create_directories(folder_ / "run/state");
  train({"--run", "run", "--steps", "1"});
  fs::remove_all(folder_ / "run/checkpoints");
  std::ofstream(folder_ / "run/checkpoints") << "in the way";
  const Result result = run({"--run", "run"});
  EXPECT_EQ(result.status, 6) << result.out;
  EXPECT_FALSE(contains(result.out, "step ")) << "no step was trained\n" << result.out;
}

TEST_F(Identity, AnEditedSpecIsTold) {
  fs::create_directory(folder_ / "bin");
  fs::copy(FAKE_TRAINER, folder_ / "bin/trainer");
  std::ofstream(folder_ / "my spec.yaml") << "lr: 1\n";
  std::ofstream(folder_ / "bin/spec_directory") << folder_.string() << "\n" << (folder_ / "bin").string() << "\n";
  std::ofstream(folder_ / "bin/spec_files") << "0123456789abcdef " << (folder_ / "my spec.yaml").string() << "\n";
  const std::string command = (folder_ / "bin/trainer").string() + " --quiet --base " + (folder_ / "data").string() +
                              " --run " + (folder_ / "run").string() + " --steps 1 2> " + (folder_ / "said").string();
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_TRUE(contains(read_file(folder_ / "said"), "my spec.yaml' was edited")) << read_file(folder_ / "said");
}

TEST_F(Identity, TheProgressHasMeanAndLargestLoss) {
  const Result result = train({"--run", "run", "metrics.every=4", "evaluation.every=6"});
  const auto metrics = lines("run/metrics.jsonl");
  const auto loss = [&](int step) { return metrics[static_cast<std::size_t>(step - 1)]["loss"].get<double>(); };
  char text[80];
  std::snprintf(text, sizeof text, "step  4/20  loss %.4f  max %.4f  lr", (loss(2) + loss(3) + loss(4)) / 3,
                std::max({loss(2), loss(3), loss(4)}));
  EXPECT_TRUE(contains(result.out, text)) << text << "\n" << result.out;
  std::snprintf(text, sizeof text, "step  6/20  loss %.4f  max %.4f  val ", (loss(5) + loss(6)) / 2,
                std::max(loss(5), loss(6)));
  EXPECT_TRUE(contains(result.out, text)) << text << "\n" << result.out;
  EXPECT_FALSE(contains(result.out.substr(result.out.find("step  8/20"), 60), "val")) << "an old one\n" << result.out;
}

TEST_F(Identity, AStopThatCannotSaveIsNoStopWithEverythingSaved) {
  for (const bool last : {false, true}) {
    const std::string run = last ? "last" : "stopped";
    close_gate(4);
    const pid_t child = start({"--run", run, "checkpoint.every=0", "--steps", last ? "6" : "20"}, {"FAKE_GATES=4"});
    wait_for_gate(child, 4);
    fs::remove_all(folder_ / run / "checkpoints");
    std::ofstream(folder_ / run / "checkpoints") << "in the way";
    if (!last) ::kill(child, SIGTERM);
    open_gate(4);
    const Result result = finish(child);
    EXPECT_EQ(result.status, 6) << result.err;
    EXPECT_TRUE(contains(result.err, "not be saved")) << result.err;
    EXPECT_FALSE(contains(result.err, "everything is saved")) << result.err;
  }
}

TEST_F(Identity, NohupIgnoresAClosedTerminal) {
  ::signal(SIGHUP, SIG_IGN);
  const pid_t child = start({"--run", "run"}, {"FAKE_GATES=5"});
  ::signal(SIGHUP, SIG_DFL);
  wait_for_gate(child, 5);
  ::kill(child, SIGHUP);
  open_gate(5);
  EXPECT_EQ(finish(child).status, 0);
}

}  // namespace
}  // namespace llmc::fake
