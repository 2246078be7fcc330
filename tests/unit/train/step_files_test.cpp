// Files about the steps of a run that a command asks for: traces, timings, timelines.
#include "checkpoint/safetensors.h"
#include "runs.h"

namespace llmc::fake {
namespace {

TEST_F(Runs, TraceHasEveryStep) {
  train({"--run", "run", "--trace", "trace", "--steps", "2"});
  for (const char* step : {"step-0", "step-1"}) {
    for (const char* file : {"weights.safetensors", "tokens.safetensors", "gradients.safetensors"})
      EXPECT_TRUE(fs::exists(folder_ / "trace" / step / file)) << step << file;
    const Json summary = Json::parse(read_file(folder_ / "trace" / step / "summary.json"));
    const Json line = lines("run/metrics.jsonl")[step[5] - '0'];
    EXPECT_EQ(summary["loss"], line["loss"]);
    for (const char* key : {"top1", "lse_mean", "lse_max", "entropy"})
      EXPECT_FLOAT_EQ(summary[key].get<float>(), line[key].get<float>()) << key;
    EXPECT_FLOAT_EQ(summary["lr"].get<float>(), line["lr"].get<float>());
    EXPECT_FLOAT_EQ(summary["grad_norm"].get<float>(), line["grad_norm"].get<float>());
  }
  const safetensors::Reader tokens(folder_ / "trace/step-1/tokens.safetensors");
  EXPECT_EQ(tokens.find("inputs")->shape, (std::vector<std::int64_t>{2, 2, 4}));
  train({"--run", "clean", "--steps", "2"});
  expect_same_checkpoint("clean", "run", 2);
}

TEST_F(Runs, TimesThatCannotBeWrittenAreAWarning) {
  fs::create_directory(folder_ / "times");
  const pid_t child = start({"--run", "run", "--timing", "times/t.json", "--steps", "3"}, {"FAKE_GATES=2"});
  wait_for_gate(child, 2);
  fs::remove(folder_ / "times");
  open_gate(2);
  const Result result = finish(child);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(test::has_facts(result.err, {"warning: ", "times/t.json", "lost"}));
}

TEST_F(Runs, ATraceIsContinuedAndNotReplacedByAnotherRun) {
  const Words words = {"--trace", "trace", "--steps", "3", "--no-final-checkpoint", "checkpoint.every=2", "--run"};
  const auto with = [&](const std::string& run) {
    Words all = words;
    all.push_back(run);
    return all;
  };
  train(with("run"));
  const std::string summary = read_file(folder_ / "trace/step-2/summary.json");
  fs::remove(folder_ / "trace/step-2/tokens.safetensors");
  train(with("run"));  // from step 2, to which its metrics are cut
  EXPECT_EQ(read_file(folder_ / "trace/step-2/summary.json"), summary);
  EXPECT_TRUE(fs::exists(folder_ / "trace/step-2/tokens.safetensors"));
  const Result other = run(with("other"));
  EXPECT_EQ(other.status, 6);
  EXPECT_TRUE(test::has_facts(other.err, {"'trace/step-", "exists already", "--trace"}));
  EXPECT_FALSE(fs::exists(folder_ / "other"));
}

TEST_F(Runs, ACommandThatSelectsStepsResumesAfterThem) {
  const Words words = {"--run", "run", "--timeline", "t.json", "--timeline-steps=2:1", "--steps"};
  const auto up_to = [&](const char* step) {
    Words all = words;
    all.push_back(step);
    return all;
  };
  train(up_to("2"));
  const std::string timeline = read_file(folder_ / "t.json");
  ASSERT_NE(timeline, "");
  EXPECT_TRUE(test::has_facts(train(up_to("3")).out, {"note", "--timeline-steps 2:1", "step 3", "ignored"}));
  EXPECT_EQ(read_file(folder_ / "t.json"), timeline);
}

/// A scheduler repeats the command of a run that it stopped anywhere.
TEST_F(Runs, ACommandResumesWhoseStepsTheStopCutInTwo) {
  const auto resumed = [&](const char* steps, Words more) {
    more.insert(more.begin(), {"--run", "run", "--timeline", "t.json", "--steps", steps});
    return train(more).out;
  };
  train({"--run", "run", "--steps", "3"});
  EXPECT_TRUE(test::has_facts(resumed("4", {"--timeline-steps=3:2"}), {"note", "before step 4", "ignored"}));
  EXPECT_TRUE(test::has_facts(resumed("5", {"--timeline-steps=2:4"}), {"note", "before step 5", "ignored"}));
  EXPECT_TRUE(test::has_facts(resumed("6", {}), {"note", "4 more steps than step 6", "ignored"}));
  EXPECT_FALSE(fs::exists(folder_ / "t.json"));
}

TEST_F(Runs, TimingFile) {
  train({"--run", "run", "--timing", "timing.json"}, {"FAKE_STEP_MS=5"});
  const Json timing = Json::parse(read_file(folder_ / "timing.json"));
  ASSERT_EQ(timing["steps"].size(), 20u);
  EXPECT_GE(timing["steps"][0], 0.005);
  EXPECT_GE(timing["seconds_to_first_step"].get<double>(), timing["seconds_to_training"].get<double>() + 0.005);
}

}  // namespace
}  // namespace llmc::fake
