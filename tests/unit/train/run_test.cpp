// Whole runs of the fake program: their output, and that stopping and resuming anywhere leaves no trace.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "checkpoint/safetensors.h"
#include "runs.h"
#include "spec/length/schedule.h"

namespace llmc::fake {
namespace {

constexpr std::int64_t kVocab = 12;

TEST_F(Runs, WritesMetricsSamplesAndCheckpoints) {
  const Result result = train({"--run", "run"});
  const auto metrics = lines("run/metrics.jsonl");
  const std::int64_t arena = Json::parse(read_file(FAKE_PROJECT "/plan.json"))["memory"]["arena_bytes"];
  ASSERT_EQ(metrics.size(), 20u);
  for (int i = 0; i < 20; ++i) {
    const Json& line = metrics[static_cast<std::size_t>(i)];
    EXPECT_EQ(line["step"], i + 1);
    EXPECT_EQ(line["tokens"], 16 * (i + 1));
    EXPECT_EQ(line["lr"], learning_rate({spec::ScheduleKind::cosine, 20, 2, 0.1, 0.2}, 0.05, i));
    EXPECT_GT(line["tokens_per_second"], 0);
    EXPECT_EQ(line.contains("val_loss"), (i + 1) % 5 == 0);
    EXPECT_EQ(line["per_parameter"]["model.norm.weight"]["weight"], 2.0);
    EXPECT_EQ(line["per_parameter"]["model.norm.weight"]["ratio"], 1.25);
    EXPECT_EQ(line["ignored"], 0);
    EXPECT_DOUBLE_EQ(line["epochs"].get<double>(), 0.16 * (i + 1));
    EXPECT_GE(line["data_wait"], 0);
    EXPECT_FALSE(line.contains("mfu")) << "of a processor";
    EXPECT_EQ(line.contains("evaluation_seconds"), (i + 1) % 5 == 0);
    EXPECT_EQ(line.contains("saving_seconds"), i > 0 && i % 5 == 0) << "of the step before";
    EXPECT_EQ(line["memory"], arena);
    EXPECT_GT(line["resident"], 1 << 20);
    // No softmax over twelve exceeds an entropy of ln 12, and a fraction of 16 targets is a multiple of 1/16.
    EXPECT_GT(line["entropy"], 0);
    EXPECT_LE(line["entropy"], std::log(12.0));
    EXPECT_LE(line["lse_mean"], line["lse_max"]);
    EXPECT_EQ(std::fmod(line["top1"].get<double>() * 16, 1), 0);
    EXPECT_EQ(line.contains("val_top1"), line.contains("val_loss"));
  }
  EXPECT_LT(metrics[19]["val_loss"], 0.95 * metrics[0]["loss"].get<double>());
  EXPECT_GT(metrics[19]["top1"], metrics[0]["top1"]);
  for (int step : {5, 10, 15, 20}) EXPECT_EQ(checkpoint("run", step).size(), 6u) << step;
  EXPECT_EQ(lines("run/samples.jsonl").size(), 12u);
  EXPECT_TRUE(contains(result.out, "step 20/20  loss ")) << result.out;
  EXPECT_TRUE(contains(result.out, "memory  " + std::to_string(arena / 1000) + ",")) << result.out;
  EXPECT_TRUE(contains(result.out,
                       "sample at step 5: 1 2 3 " + lines("run/samples.jsonl")[0]["text"].get<std::string>() + "\n"))
      << result.out;
  EXPECT_TRUE(contains(result.out, "3.20 epochs")) << result.out;
  EXPECT_FALSE(contains(result.out, "\033")) << "colour in a file";
  EXPECT_EQ(result.err, "");
}

/// A complete tensor of a file.
template <typename T>
std::vector<T> tensor(const fs::path& file, const char* name) {
  const safetensors::Reader reader(file);
  const auto* entry = reader.find(name);
  if (!entry) throw std::runtime_error(file.string() + " has no " + name);
  std::vector<T> values(entry->bytes() / sizeof(T));
  reader.read(*entry, 0, values.data(), entry->bytes());
  return values;
}

/// -log softmax(table[token])[target]; softmax in `probabilities`.
double loss_of(const std::vector<float>& table, int token, int target, std::array<double, kVocab>& probabilities) {
  double total = 0;
  for (int c = 0; c < kVocab; ++c) total += std::exp(static_cast<double>(table[token * kVocab + c]));
  for (int c = 0; c < kVocab; ++c) probabilities[c] = std::exp(static_cast<double>(table[token * kVocab + c])) / total;
  return -std::log(probabilities[target]);
}

TEST_F(Runs, ValidationLossIsTheMeanOverItsTargets) {
  train({"--run", "run"});
  const auto table =
      tensor<float>(folder_ / "run/checkpoints/step-00000020/model.safetensors", "model.embed_tokens.weight");
  const std::string shard = read_file(folder_ / "data/val.bin");
  std::array<double, kVocab> probabilities;
  double sum = 0, correct = 0;  // 13 tokens are 3 samples of 4 targets, the third alone in a batch of two
  for (std::size_t i = 0; i < 12; ++i) {
    std::uint16_t pair[2];
    std::memcpy(pair, shard.data() + 1024 + 2 * i, 4);
    sum += loss_of(table, pair[0], pair[1], probabilities);
    correct += probabilities[pair[1]] == *std::max_element(probabilities.begin(), probabilities.end());
  }
  EXPECT_NEAR(lines("run/metrics.jsonl")[19]["val_top1"].get<double>(), correct / 12, 1e-6);
  // loss_scale is rounded to float once.
  EXPECT_NEAR(lines("run/metrics.jsonl")[19]["val_loss"].get<double>(), sum / 12, 1e-7 * sum);
}

TEST_F(Runs, ValidationSetsByNameHaveTheirOwnMetrics) {
  fs::copy_file(folder_ / "data/val.bin", folder_ / "data/same.bin");
  const std::string same = "data.validation.same=" + (folder_ / "data/same.bin").string(),
                    train_set = "data.validation.Train-2=" + (folder_ / "data/train-*.bin").string();
  // The same tokens without a header; only this set has their format.
  std::ofstream(folder_ / "data/raw.bin", std::ios::binary) << read_file(folder_ / "data/val.bin").substr(1024);
  train({"--run", "plain", "data.validation.path=" + (folder_ / "data/val.bin").string(),
         "data.validation.raw=" + (folder_ / "data/raw.bin").string(), "data.validation.raw.format=nanogpt"});
  // Additional evaluations, also after a resume, change no bit of training.
  train({"--run", "run", "--steps", "5", same});
  train({"--run", "run", "--steps", "10", train_set});
  const Result shared = train({"--run", "run", "--steps", "15", "data.validation.same="});
  EXPECT_TRUE(contains(shared.out + shared.err, "data.train.path and data.validation.Train-2 both name '" +
                                                    (folder_ / "data/train-0.bin").string() + "' and 1 more"))
      << shared.out << shared.err;
  EXPECT_FALSE(contains(shared.out + shared.err, "data.validation.path both")) << shared.out << shared.err;
  train({"--run", "run", "data.validation.path="});
  expect_same_checkpoint("plain", "run", 20);
  const auto plain = lines("plain/metrics.jsonl"), run = lines("run/metrics.jsonl");
  for (std::size_t step : {5u, 10u, 15u, 20u}) {
    const Json &ours = run[step - 1], &theirs = plain[step - 1];
    for (const char* key : {"val_loss", "val_top1"}) {
      const std::string name = key;
      EXPECT_EQ(theirs[name + "/raw"], theirs[name]) << step;
      EXPECT_EQ(ours.contains(name), step < 20) << step;
      if (step < 20) {
        EXPECT_EQ(ours[name], theirs[name]) << step;
      }
      EXPECT_EQ(ours.contains(name + "/same"), step < 15) << step;
      if (step < 15) {
        EXPECT_EQ(ours[name + "/same"], theirs[name]) << step;
      }
      EXPECT_EQ(ours.contains(name + "/Train-2"), step > 5) << step;
      if (step > 5) {
        EXPECT_NE(ours[name + "/Train-2"], theirs[name]) << step;
      }
    }
  }
  const Json changed = lines("run/history.jsonl")[3]["changed"];
  EXPECT_EQ(changed, (Json{{"data.validation.path", {(folder_ / "data/val.bin").string(), "none"}}})) << changed;
  const Result missing = this->run({"--run", "run", "data.validation.gone=nowhere-*.bin"});
  EXPECT_EQ(missing.status, 5);
  EXPECT_TRUE(contains(missing.err, "data.validation.gone of the command line")) << missing.err;
}

TEST_F(Runs, BitsPerByteAreOfTheTextOfTheTargets) {
  Json vocabulary = Json::object();
  for (int id = 0; id < kVocab; ++id)  // of one, two and three bytes
    vocabulary[std::string(static_cast<std::size_t>(id % 3 + 1), static_cast<char>('a' + id))] = id;
  const Json tokenizer = {{"decoder", {{"type", "ByteLevel"}}},
                          {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}}}};
  std::ofstream(folder_ / "data/tokenizer.json") << tokenizer.dump();
  const std::string file = "data.tokenizer=" + (folder_ / "data/tokenizer.json").string();
  train({"--run", "run", "--steps", "5", file});
  const std::string shard = read_file(folder_ / "data/val.bin");
  int bytes = 0;
  for (std::size_t target = 1; target < 13; ++target)
    bytes += static_cast<std::uint8_t>(shard[1024 + 2 * target]) % 3 + 1;
  const Json line = lines("run/metrics.jsonl")[4];
  EXPECT_NEAR(line["val_bits_per_byte"].get<double>(), line["val_loss"].get<double>() / std::log(2) * 12 / bytes,
              1e-12);
  EXPECT_FALSE(lines("run/metrics.jsonl")[3].contains("val_bits_per_byte"));

  // For data with tokens unknown to the tokenizer, the text is unknown.
  std::ofstream(folder_ / "data/tokenizer.json")
      << Json{{"decoder", {{"type", "ByteLevel"}}},
              {"model", {{"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}}}, {"merges", Json::array()}}}};
  train({"--run", "other", "--steps", "5", file, "sampling.every=0"});
  EXPECT_TRUE(lines("other/metrics.jsonl")[4].contains("val_loss"));
  EXPECT_FALSE(lines("other/metrics.jsonl")[4].contains("val_bits_per_byte"));
}

TEST_F(Runs, AStepIsTheMeanOverAllItsMicroBatches) {
  train({"--run", "run", "--trace", "trace", "--steps", "1", "batch.tokens=32"});
  const fs::path step = folder_ / "trace/step-0";
  const auto table = tensor<float>(step / "weights.safetensors", "model.embed_tokens.weight");
  const auto inputs = tensor<std::int32_t>(step / "tokens.safetensors", "inputs");
  const auto targets = tensor<std::int32_t>(step / "tokens.safetensors", "targets");
  const auto ours = tensor<float>(step / "gradients.safetensors", "model.embed_tokens.weight");
  ASSERT_EQ(inputs.size(), 32u);
  std::vector<double> gradients(kVocab * kVocab);
  std::array<double, kVocab> probabilities;
  double loss = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    loss += loss_of(table, inputs[i], targets[i], probabilities) / 32;
    for (int c = 0; c < kVocab; ++c) gradients[inputs[i] * kVocab + c] += (probabilities[c] - (c == targets[i])) / 32;
  }
  EXPECT_NEAR(lines("run/metrics.jsonl")[0]["loss"].get<double>(), loss, 1e-6 * loss);
  // 32 sums in fp32 of terms below 1/32.
  for (std::size_t i = 0; i < gradients.size(); ++i) EXPECT_NEAR(ours[i], gradients[i], 32 * 6e-8) << i;
}

TEST_F(Runs, ResumeIsExactAtEveryStep) {
  train({"--run", "clean", "checkpoint.every=1"});
  for (int stop = 1; stop < 20; ++stop) {
    const std::string run = "run" + std::to_string(stop);
    train({"--run", run, "--steps", std::to_string(stop)});
    expect_same_checkpoint("clean", run, stop);
    train({"--run", run});
    expect_same_checkpoint("clean", run, 20);
    EXPECT_EQ(lines(run + "/metrics.jsonl").size(), 20u);
  }
}

TEST_F(Runs, SecondsGoOnOverAResume) {
  train({"--run", "run", "--steps", "5"});
  train({"--run", "run", "--steps", "7"});
  const auto all = lines("run/metrics.jsonl");
  const auto seconds = [&](std::size_t step, const char* key) { return all[step - 1][key].get<double>(); };
  EXPECT_EQ(seconds(5, "total_seconds"), seconds(5, "seconds"));
  EXPECT_DOUBLE_EQ(seconds(6, "total_seconds"), seconds(5, "total_seconds") + seconds(6, "seconds"));
  EXPECT_DOUBLE_EQ(seconds(7, "total_seconds"), seconds(5, "total_seconds") + seconds(7, "seconds"));
}

TEST_F(Runs, EvaluationSamplingAndSavingChangeNothing) {
  train({"--run", "all", "evaluation.every=1", "sampling.every=1", "checkpoint.every=1"});
  train({"--run", "none", "evaluation.every=0", "sampling.every=0", "checkpoint.every=0", "metrics.every=7"});
  expect_same_checkpoint("all", "none", 20);
  EXPECT_EQ(checkpoint("none", 10).size(), 0u);
  ASSERT_EQ(lines("none/metrics.jsonl").size(), 20u) << "every step's loss";
  for (const Json& line : lines("none/metrics.jsonl"))
    EXPECT_EQ(line.contains("per_parameter"),
              line["step"] == 1 || line["step"] == 20 || line["step"].get<int>() % 7 == 0)
        << line;
  for (std::size_t i = 0; i < 20; ++i)
    EXPECT_EQ(lines("none/metrics.jsonl")[i]["loss"], lines("all/metrics.jsonl")[i]["loss"]);
}

TEST_F(Runs, TheLastStepNeedNotBeSaved) {
  const Result none = train({"--run", "none", "--no-final-checkpoint", "checkpoint.every=0"});
  EXPECT_TRUE(fs::is_empty(folder_ / "none/checkpoints"));
  EXPECT_TRUE(test::has_facts(none.out, {"ended at step 20", "without a checkpoint"}));
  EXPECT_EQ(lines("none/metrics.jsonl").size(), 20u);
  train({"--run", "clean"});
  train({"--run", "none"});  // starts anew and replaces the lines of the run that saved nothing
  expect_same_checkpoint("clean", "none", 20);
  EXPECT_EQ(lines("none/metrics.jsonl").size(), 20u);

  train({"--run", "some", "--no-final-checkpoint", "--steps", "12"});
  EXPECT_EQ(checkpoint("some", 10).size(), 6u);
  EXPECT_EQ(checkpoint("some", 12).size(), 0u);
  const Result due = train({"--run", "some", "--no-final-checkpoint"});
  EXPECT_TRUE(contains(due.out, "resumed at step 10")) << due.out;
  EXPECT_FALSE(contains(due.out, "without a checkpoint")) << due.out;
  expect_same_checkpoint("clean", "some", 20);  // requested by checkpoint.every=5
}

TEST_F(Runs, ASignalSavesWithoutAFinalCheckpointToo) {
  const pid_t child = start({"--run", "run", "--no-final-checkpoint", "checkpoint.every=0"}, {"FAKE_GATES=5"});
  wait_for_gate(child, 5);
  ::kill(child, SIGTERM);
  open_gate(5);
  const Result result = finish(child);
  EXPECT_EQ(result.status, 75) << result.err;
  const std::size_t steps = lines("run/metrics.jsonl").size();
  EXPECT_LT(steps, 20u);
  EXPECT_EQ(checkpoint("run", static_cast<int>(steps)).size(), 6u);
  EXPECT_TRUE(contains(result.err, "--no-final-checkpoint")) << result.err;  // in the resume command
}

TEST_F(Runs, ResumeFromADirectoryIntoAnotherRun) {
  train({"--run", "clean"});
  train({"--run", "other", "--resume", "clean/checkpoints/step-00000010"});
  expect_same_checkpoint("clean", "other", 20);
  const Result back = run({"--run", "clean", "--resume", "clean/checkpoints/step-00000010"});
  EXPECT_EQ(back.status, 6);
  EXPECT_TRUE(contains(back.err, "newer checkpoints")) << back.err;
}

TEST_F(Runs, MetricsOfLostStepsAreDropped) {
  train({"--run", "run", "--steps", "12"});
  fs::remove_all(folder_ / "run/checkpoints/step-00000012");
  train({"--run", "run"});
  const auto metrics = lines("run/metrics.jsonl");
  ASSERT_EQ(metrics.size(), 20u);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(metrics[i]["step"], i + 1);
  train({"--run", "clean"});
  EXPECT_EQ(read_file(folder_ / "run/samples.jsonl").size() > 0, true);
  // step 12 was the end of a run, with its own samples, which a resumed run does not have
  EXPECT_EQ(read_file(folder_ / "run/samples.jsonl"), read_file(folder_ / "clean/samples.jsonl"));
}

TEST_F(Runs, SamplesDependOnTheSeedAndTheTemperatureOnly) {
  train({"--run", "a"});
  train({"--run", "b", "evaluation.every=1", "sampling.prompts=[\"1 2 3\", \"4\"]"});
  const auto a = lines("a/samples.jsonl"), b = lines("b/samples.jsonl");
  ASSERT_EQ(b.size(), 8u);
  for (std::size_t round = 0; round < 4; ++round)
    for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(a[3 * round + i], b[2 * round + i]);
  std::istringstream ids(a[0]["text"].get<std::string>());
  int count = 0;
  for (int id; ids >> id; ++count) EXPECT_TRUE(id >= 0 && id < kVocab);
  EXPECT_EQ(count, 6);
  // Greedy continuations of a bigram model depend only on their last token, whatever context was fed.
  train({"--run", "c", "sampling.temperature=0", "sampling.prompts=[\"5 6 7 8 9\", \"9\"]"});
  const auto c = lines("c/samples.jsonl");
  for (std::size_t i = 0; i < c.size(); i += 2) EXPECT_EQ(c[i]["text"], c[i + 1]["text"]);
}

TEST_F(Runs, SkippedUpdatesLeaveTheWeightsAlone) {
  const Result result = train({"--run", "run", "checkpoint.every=1"}, {"FAKE_SKIP=3"});
  EXPECT_TRUE(contains(result.err, "step 3: loss nan")) << result.err;
  EXPECT_EQ(checkpoint("run", 2)["model.safetensors"], checkpoint("run", 3)["model.safetensors"]);
  EXPECT_EQ(checkpoint("run", 2)["optimizer.safetensors"], checkpoint("run", 3)["optimizer.safetensors"]);
  EXPECT_NE(checkpoint("run", 3)["model.safetensors"], checkpoint("run", 4)["model.safetensors"]);
  // Bias correction counts applied updates, before and after a resume.
  EXPECT_FALSE(contains(checkpoint("run", 2)["state.json"], "skipped_updates"));
  EXPECT_TRUE(contains(checkpoint("run", 3)["state.json"], "\"skipped_updates\": 1"));
  train({"--run", "again", "--steps", "5", "checkpoint.every=1"}, {"FAKE_SKIP=3"});
  train({"--run", "again", "--steps", "8", "checkpoint.every=1"});
  EXPECT_EQ(checkpoint("run", 8)["model.safetensors"], checkpoint("again", 8)["model.safetensors"]);
  const auto metrics = lines("run/metrics.jsonl");
  EXPECT_EQ(metrics[2]["loss"], nullptr);
  EXPECT_EQ(metrics[2]["skipped"].size(), 4u);
  EXPECT_FALSE(metrics[3].contains("skipped"));
}

TEST_F(Runs, TenSkippedUpdatesInARowStopTheRun) {
  train({"--run", "nine"}, {"FAKE_SKIP=4,5,6,7,8,9,10,11,12"});
  const Result ten = run({"--run", "ten", "metrics.every=100"}, {"FAKE_SKIP=4,5,6,7,8,9,10,11,12,13"});
  EXPECT_EQ(ten.status, 7);
  EXPECT_TRUE(contains(ten.err, "those of step 3.")) << ten.err;
  EXPECT_EQ(lines("ten/metrics.jsonl").back()["step"], 13);
  EXPECT_EQ(lines("ten/metrics.jsonl").back()["skipped"].size(), 4u);
}

TEST_F(Runs, AFailedSaveDoesNotStopTraining) {
  const pid_t child = start({"--run", "run"}, {"FAKE_GATES=4,8"});
  wait_for_gate(child, 4);
  fs::remove_all(folder_ / "run/checkpoints");
  std::ofstream(folder_ / "run/checkpoints") << "in the way";
  open_gate(4);
  wait_for_gate(child, 8);
  fs::remove(folder_ / "run/checkpoints");
  open_gate(8);
  const Result result = finish(child);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(contains(result.err, "FAILED at step 5")) << result.err;
  EXPECT_EQ(checkpoint("run", 5).size(), 0u);
  train({"--run", "clean"});
  expect_same_checkpoint("clean", "run", 10);
  expect_same_checkpoint("clean", "run", 20);
}

TEST_F(Runs, TheLastStepMakesUpForASaveThatFailed) {
  for (const bool repaired : {true, false}) {
    const std::string name = repaired ? "repaired" : "full";
    const fs::path folder = folder_ / name / "checkpoints";
    const pid_t child = start({"--run", name, "--steps", "7", "--no-final-checkpoint"}, {"FAKE_GATES=4,7"});
    wait_for_gate(child, 4);
    fs::remove_all(folder);
    std::ofstream(folder) << "in the way";
    open_gate(4);
    wait_for_gate(child, 7);
    if (repaired) fs::remove(folder);
    open_gate(7);
    const Result result = finish(child);
    EXPECT_EQ(result.status, repaired ? 0 : 6) << result.err;
    EXPECT_TRUE(contains(result.err, "FAILED at step 5")) << result.err;
    EXPECT_EQ(checkpoint(name, 7).empty(), !repaired);
    for (const int step : {4, 7}) close_gate(step);
  }
}

TEST_F(Runs, NumbersOfOptionsAreDecimal) {
  train({"--run", "run", "--steps", "010"});
  EXPECT_EQ(lines("run/metrics.jsonl").size(), 10u) << "CLI11 alone reads 010 as 8";
}

TEST_F(Runs, PathsAreRelativeToTheDirectoryNotedBesideTheTrainer) {
  fs::create_directory(folder_ / "bin");
  fs::copy(FAKE_TRAINER, folder_ / "bin/trainer");
  std::ofstream(folder_ / "bin/spec_directory") << (folder_ / "data").string() << "\n"
                                                << (folder_ / "bin").string() << "\n";
  const std::string command = (folder_ / "bin/trainer").string() + " --quiet --run " + (folder_ / "run").string();
  ASSERT_EQ(std::system(("cd / && " + command).c_str()), 0);
  train({"--run", "clean"});
  expect_same_checkpoint("clean", "run", 20);
}

TEST_F(Runs, AMovedRunFolderSaysWhereItsPathsAreFrom) {
  train({"--run", "run", "--steps", "2"});
  fs::create_directories(folder_ / "far/away");
  fs::rename(folder_ / "run", folder_ / "far/away/run");
  const Result lost = run({"--run", "far/away/run", "--steps", "4"});
  EXPECT_EQ(lost.status, 5) << lost.err;
  const std::string file = (folder_ / "far/away/run/spec.yaml").string();
  for (const std::string& part :
       {"no file matches '" + (folder_ / "far/away/data/train-*.bin").string() + "'",
        "which is data.train.path of '" + file + "'",
        "no file matches '" + (folder_ / "far/away/data/val.bin").string() + "', which is data.validation.path of"})
    EXPECT_TRUE(contains(lost.err, part)) << part << "\n" << lost.err;
  // The complete command uses the trainer's own paths, because they exist; running it resumes the run.
  const std::string data = (folder_ / "data").string(), words = "--base data --threads 1 --run far/away/run --steps 4";
  const std::string command = std::string(FAKE_TRAINER) + " " + words + " 'data.train.path=" + data +
                              "/train-*.bin' data.validation.path=" + data + "/val.bin";
  EXPECT_TRUE(lost.err.ends_with("`llmc data build`:\n  " + command + "\n")) << lost.err;
  EXPECT_EQ(std::system(("cd " + folder_.string() + " && " + command + " --quiet").c_str()), 0);
  EXPECT_TRUE(lost.err.size() < 2000) << "once each";
  train({"--run", "far/away/run"});
  train({"--run", "clean"});
  expect_same_checkpoint("clean", "far/away/run", 20);
}

TEST_F(Runs, ARemovedRunFolderIsMadeAgain) {
  // No save is in progress while the folder is removed.
  const pid_t child = start({"--run", "run", "checkpoint.every=10"}, {"FAKE_GATES=7,18"});
  wait_for_gate(child, 7);
  fs::remove_all(folder_ / "run");
  open_gate(7);
  wait_for_gate(child, 18);  // the save of step 10 has started
  EXPECT_EQ(lines("run/metrics.jsonl").front()["step"], 11);
  open_gate(18);
  const Result done = finish(child);
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_TRUE(test::has_facts(done.err, {"run' was removed", "recreated", "step 10"}));
  EXPECT_EQ(lines("run/history.jsonl").size(), 1u);
  EXPECT_FALSE(fs::is_empty(folder_ / "run/tensorboard"));
  train({"--run", "clean", "checkpoint.every=10"});
  expect_same_checkpoint("clean", "run", 20);
  EXPECT_EQ(train({"--run", "run", "checkpoint.every=10", "schedule.steps=21"}).err, "") << "it goes on as any other";
}

TEST_F(Runs, AFolderThatAnotherRunTookIsLeftAlone) {
  const pid_t child = start({"--run", "run", "checkpoint.every=10"}, {"FAKE_GATES=7"});
  wait_for_gate(child, 7);
  fs::remove_all(folder_ / "run");
  train({"--run", "run", "--steps", "2", "seed=1"});
  open_gate(7);
  const Result lost = finish(child);
  EXPECT_EQ(lost.status, 6) << lost.err;
  EXPECT_TRUE(test::has_facts(lost.err, {"run' was removed", "another run"}));
  EXPECT_EQ(checkpoint("run", 20).size(), 0u);
}

TEST_F(Runs, ResumeOfAnotherRunGoesOnInTheDefaultFolder) {
  train({"--run", "other", "--steps", "5"});
  const Result result = train({"--resume", "other"});
  const std::string here = (folder_ / "data/runs/fake").string();
  EXPECT_TRUE(contains(result.out, "run     " + here + ", resumed at step 5 of '")) << result.out;
  EXPECT_EQ(checkpoint("other", 20).size(), 0u) << "the other run stays as it is";
  train({"--run", "clean"});
  expect_same_checkpoint("clean", "data/runs/fake", 20);
  EXPECT_FALSE(contains(train({"schedule.steps=21"}).out, " of '")) << "its own checkpoint";
}

TEST_F(Runs, NothingToDoNamesTheCheckpointAndTheLimit) {
  train({"--run", "run"});
  const std::string where = "'" + (folder_ / "run/checkpoints/step-00000020").string() + "' is at step 20";
  const std::string relative = "'run/checkpoints/step-00000020' is at step 20";
  const auto says = [&](const Words& words, const std::string& rest) {
    const Result result = train(words);
    EXPECT_TRUE(contains(result.out, "nothing to do: " + where + rest) ||
                contains(result.out, "nothing to do: " + relative + rest))
        << result.out;
  };
  says({"--run", "run"}, " of 20. Give a larger schedule.steps to continue");
  says({"--run", "run", "--steps", "20"}, " of 20. Give a larger --steps to continue");
  says({"--run", "run", "--steps", "7"}, ", past --steps 7");
  EXPECT_EQ(lines("run/history.jsonl").size(), 1u);
}

TEST_F(Runs, HistoryKeepsWhatWasAllowed) {
  train({"--run", "run", "--steps", "3"});
  train({"--run", "run", "--allow", "seed", "seed=1", "--steps", "4"});
  const auto starts = lines("run/history.jsonl");
  EXPECT_EQ(starts[0]["allowed"], Json::array());
  EXPECT_EQ(starts[1]["allowed"], Json::array({"seed"}));
  EXPECT_EQ(starts[1]["overrides"], Json::array({"seed=1"}));
}

}  // namespace
}  // namespace llmc::fake
