// Refusals of a trainer, with messages and exit codes.
#include "runs.h"

namespace llmc::fake {
namespace {

class Refusals : public Runs {
 protected:
  void expect(const Words& arguments, int status, const test::Facts& facts) {
    const Result result = run(arguments);
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_TRUE(test::has_facts(result.err, facts));
    EXPECT_TRUE(result.err.starts_with("error: ")) << result.err;
  }
};

TEST_F(Refusals, HelpAndPlan) {
  const Result help = train({"--help"});
  for (const char* part : {"--resume", "Examples:", "optimizer.lr=0.05", "--trace"})
    EXPECT_TRUE(contains(help.out, part)) << help.out;
  EXPECT_EQ(train({"--plan"}).out, read_file(FAKE_PROJECT "/plan.txt"));
  EXPECT_EQ(train({"--plan", "--json"}).out, read_file(FAKE_PROJECT "/plan.json"));
  EXPECT_FALSE(fs::exists(folder_ / "runs") || fs::exists(folder_ / "data/runs"));
}

TEST_F(Refusals, CommandLine) {
  expect({"--nonsense"}, 2, "--help");
  expect({"--steps", "0"}, 2, "--steps");
  expect({"--steps", "x"}, 2, "--steps");
  for (const char* number : {"0x10", "1e3", "18446744073709551616"}) expect({"--steps", number}, 2, number);
  for (const char* number : {"18446744073709551616", "-7", "0x7", "7.0"})
    expect({"sample", "--checkpoint", "c", "--prompt", "1", "--seed", number}, 2, "'" + std::string(number) + "' is ");
  expect({"--json"}, 2, "--plan");
  expect({"--plan", "optimizer.lrr=1"}, 2, "did you mean lr?");
  expect({"--plan", "model.vocab_size=13"}, 2, "llmc compile");
  expect({"--plan", "--ranks", "2"}, 2, "--plan does not train. Leave out --ranks");
  expect({"--steps", "21"}, 2, "schedule.steps=21");
  expect({"optimizer.learning=1"}, 2, "\"learning\" in optimizer");
  expect({"optimizer.lrr=1"}, 2, "did you mean lr?");
  expect({"optimizer.lr=-1"}, 2, "out of range");
  expect({"optimizer.betas=[0.9, 1]"}, 2, "out of range");
  expect({"seed=1", "seed=2"}, 2, "overridden twice");
  expect({"--allow", "optimizer.lr"}, 2, "--allow");
  expect({"schedule.warmup_steps=20"}, 1, "warmup_steps 20 ");
  expect({"checkpoint.keep_every=7"}, 1, "not a multiple");
  expect({"model.vocab_size=13"}, 2, "llmc compile");
  expect({"batch.tokens=20"}, 1, "write tokens: 16 or 24");
  expect({"tune", "--steps", "3"}, 2, "--steps");
  expect({"--steps", "3", "optimizer.lr=1", "tune"}, 2, "--steps");
  expect({"optimizer.lr=1", "tune"}, 2, "Leave out overrides, --base, --threads");
  expect({"--timeline", "t.json", "--timeline-steps", "20:2"}, 2, "would write steps 20 to 21");
  expect({"--profile", "20:2"}, 2, "names steps 20 to 21");
  expect({"--stpes", "3"}, 2, {"--stpes", "--steps?"});
  expect({"eval"}, 2, {"'eval'", "evaluate?"});
  expect({"evaluate"}, 2, "evaluate --help");
  EXPECT_FALSE(fs::exists(folder_ / "runs") || fs::exists(folder_ / "data/runs"));
}

TEST_F(Refusals, Data) {
  expect({"data.train.path=missing-*.bin"}, 5, "missing");
  expect({"data.tokenizer=missing.model"}, 5, "missing.model");
  expect({"sampling.prompts=[\"Once upon\"]"}, 1, "data.tokenizer");
  expect({"sampling.prompts=[\"1 99\"]"}, 5, "token 99");
  write_shard(folder_ / "data/val.bin", 4, 1);
  expect({}, 5, "too few");
}

TEST_F(Refusals, AFolderWithOtherThingsIsNoRunFolder) {
  expect({"--run", "."}, 6, {"'.'", "no run", "\""});
  expect({"--run", "data"}, 6, {"'data'", "no run", "\"train-0.bin\" and more"});
  EXPECT_FALSE(fs::exists(folder_ / "state") || fs::exists(folder_ / "data/state")) << "nothing is left in it";
  fs::create_directory(folder_ / "run");
  std::ofstream(folder_ / "run/slurm-7.out") << "what the queue wrote\n";
  train({"--run", "run", "--steps", "1"});
}

TEST_F(Refusals, AMissingCheckpointNamesThoseThatAreThere) {
  train({"--run", "run", "checkpoint.keep_last=2"});
  const std::string there = " ('run/checkpoints' has step-00000015 and step-00000020; ";
  for (const char* name : {"run/checkpoints/step-00000010", "run/checkpoints/step-00000010/", "run/step-00000010"})
    expect({"--run", "run", "--resume", name}, 6,
           {std::string("'") + name + "'" + there, "checkpoint.keep_last", "checkpoint.keep_every"});
  expect({"--run", "run", "--resume", "run/checkpoints"}, 6, {"'run/checkpoints' is neither", there});
  expect({"--run", "run", "--resume", "runs/checkpoints/step-00000010"}, 6,
         {"'runs/checkpoints/step-00000010'. ", "--resume"});
}

TEST_F(Refusals, RunFolders) {
  train({"--run", "run", "--steps", "6"});
  expect({"--run", "run", "--resume", "none"}, 6, {"'run'", "--resume none"});
  expect({"--run", "run", "--resume", "elsewhere"}, 6, "no checkpoint");
  fs::create_directory(folder_ / "model");
  expect({"--run", "run", "--resume", "model"}, 6, "'model' is neither");
  std::ofstream(folder_ / "model/config.json") << "{}";
  std::ofstream(folder_ / "model/model.safetensors") << "";
  expect({"--run", "run", "--resume", "model"}, 6, {"'model'", "Hugging Face model", "init.from"});
  expect({"--run", "run", "seed=1"}, 6, {"seed 42", "1", "--allow seed"});
  expect({"--run", "run", "data.seed=1"}, 6, {"data.seed 7", "1", "--allow data.seed"});
  expect({"--run", "run", "schedule.steps=10"}, 6, "--allow schedule.steps");
  const Result again = train({"--run", "run", "--steps", "6"});
  EXPECT_TRUE(contains(again.out, "nothing to do")) << again.out;
  // No step would use another learning rate, so it must not be ignored silently.
  expect({"--run", "run", "--steps", "6", "optimizer.lr=0.01"}, 2, {"optimizer.lr 0.05", "0.01"});
  expect({"--run", "run", "--steps", "6", "optimizer.lr=0.01"}, 2, "--run runs/NAME");
  write_shard(folder_ / "data/train-0.bin", 61, 9);
  expect({"--run", "run"}, 6, "data");
}

TEST_F(Refusals, DamagedCheckpoints) {
  train({"--run", "clean"});
  train({"--run", "run", "--steps", "11"});
  const auto damage = [&](const std::string& name) {
    const fs::path file = folder_ / "run/checkpoints" / name / "model.safetensors";
    std::string bytes = read_file(file);
    bytes.back() ^= 1;
    std::ofstream(file, std::ios::binary) << bytes;
  };
  damage("step-00000011");
  const Result result = train({"--run", "run", "--steps", "15"});
  EXPECT_TRUE(contains(result.err, "step-00000011")) << result.err;
  EXPECT_TRUE(contains(result.out, "resumed at step 10")) << result.out;
  expect_same_checkpoint("clean", "run", 15);
  for (const char* name : {"step-00000005", "step-00000010", "step-00000015"}) damage(name);
  if (fs::exists(folder_ / "run/checkpoints/step-00000011/model.safetensors") &&
      checkpoint("run", 11) == checkpoint("clean", 11))
    damage("step-00000011");
  const Result all = run({"--run", "run"});
  EXPECT_EQ(all.status, 6) << all.err;
  EXPECT_TRUE(contains(all.err, "every checkpoint")) << all.err;
}

TEST_F(Refusals, TwoTrainersInOneFolder) {
  const pid_t first = start({"--run", "run"}, {"FAKE_GATES=4"});
  wait_for_gate(first, 4);
  const Result second = run({"--run", "run"});
  EXPECT_EQ(second.status, 6);
  EXPECT_TRUE(contains(second.err, "another trainer")) << second.err;
  ::kill(first, SIGTERM);
  open_gate(4);
  EXPECT_EQ(finish(first).status, 75);
}

TEST_F(Refusals, Quiet) {
  const Result result = train({"--run", "run", "--quiet"});
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "");
}

}  // namespace
}  // namespace llmc::fake
