// trainer --batches: names the samples of past and future steps, and changes nothing.
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "checkpoint/safetensors.h"
#include "runs.h"

namespace llmc::fake {
namespace {

class Batches : public Runs {
 protected:
  /// One JSON object per step.
  std::vector<Json> batches(Words words, const Words& environment = {}) {
    words.push_back("--json");
    const Result result = train(words, environment);
    EXPECT_EQ(result.err, "");
    std::vector<Json> steps;
    std::istringstream text(result.out);
    for (std::string line; std::getline(text, line);) steps.push_back(Json::parse(line));
    return steps;
  }
  static std::vector<std::uint64_t> ids(const Json& step) {
    std::vector<std::uint64_t> found;
    for (const Json& sample : step["samples"]) found.push_back(sample["id"]);
    return found;
  }
  std::map<std::string, std::string> tree(const std::string& name) const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / name))
      if (entry.is_regular_file()) files[entry.path()] = read_file(entry.path());
    return files;
  }
  void refuse(int code, const Words& words, const test::Facts& why) {
    const Result result = run(words);
    EXPECT_EQ(result.status, code) << words[0] << "\n" << result.out << result.err;
    EXPECT_TRUE(test::has_facts(result.err, why));
    EXPECT_EQ(result.out, "");
  }
};

/// Skipped updates log their samples; up to nine in a row are allowed.
const char kSkips[] = "FAKE_SKIP=1,2,3,4,5,6,7,8,9,11,12,13,14,15,16,17,18,19";

TEST_F(Batches, AreThoseThatTrainingLogs) {
  const auto before = batches({"--run", "run", "--batches", "1:20"});
  EXPECT_FALSE(fs::exists(folder_ / "run")) << "a look makes no folder";
  train({"--run", "run"}, {kSkips});
  const auto after = batches({"--run", "run", "--batches", "1:20"});
  ASSERT_EQ(before.size(), 20u);
  EXPECT_EQ(before, after);
  const auto metrics = lines("run/metrics.jsonl");
  EXPECT_TRUE(metrics[0].contains("skipped") && metrics[18].contains("skipped"));
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(after[i]["step"], i + 1);
    if (metrics[i].contains("skipped")) {
      EXPECT_EQ(metrics[i]["skipped"], ids(after[i])) << i;
    }
  }
  EXPECT_EQ(batches({"--run", "run", "--batches", "7"}), std::vector<Json>{after[6]});
  EXPECT_EQ(after[19]["epoch"], 3);  // 25 samples per epoch, four per step
}

TEST_F(Batches, LieWhereTheTraceHasTheirTokens) {
  train({"--run", "run", "--trace", "trace", "--steps", "3"});
  const auto steps = batches({"--run", "run", "--batches", "1:3", "--text"});
  for (int step = 0; step < 3; ++step) {
    const safetensors::Reader reader(folder_ / "trace" / ("step-" + std::to_string(step)) / "tokens.safetensors");
    std::vector<std::int32_t> inputs(16);
    reader.read(*reader.find("inputs"), 0, inputs.data(), 64);
    for (std::size_t row = 0; row < 4; ++row) {
      const Json& sample = steps[static_cast<std::size_t>(step)]["samples"][row];
      const std::string shard = read_file(sample["file"].get<std::string>());
      std::string text;
      for (std::size_t t = 0; t < 4; ++t) {
        std::uint16_t token = 0;
        std::memcpy(&token, shard.data() + 1024 + 2 * (sample["token"].get<std::size_t>() + t), 2);
        EXPECT_EQ(inputs[4 * row + t], token);
        text += (t ? " " : "") + std::to_string(token);
      }
      EXPECT_EQ(sample["text"], text) << "token ids where there is no tokenizer";
      EXPECT_EQ(sample["targets"], 4);
    }
  }
}

TEST_F(Batches, OfARunThatChangedAreWhatEachStartTrainedOn) {
  train({"--run", "run", "--steps", "5", "guards.limit_in_a_row=100"}, {"FAKE_SKIP=1,2,3,4,5"});
  // Future steps use the values that the run would train with.
  const auto ahead = batches({"--run", "run", "--batches", "6:5", "batch.tokens=32"});
  train({"--run", "run", "--steps", "10", "batch.tokens=32"}, {"FAKE_SKIP=1,2,3,4,5"});
  // An epoch continues with samples of another length.
  train({"--run", "run", "--steps", "14"}, {"FAKE_TRAINER_OF=length_8", "FAKE_SKIP=1,2,3,4"});
  const auto steps = batches({"--run", "run", "--batches", "1:14"}, {"FAKE_TRAINER_OF=length_8"});
  const auto metrics = lines("run/metrics.jsonl");
  for (std::size_t i = 0; i < 14; ++i) EXPECT_EQ(metrics[i]["skipped"], ids(steps[i])) << i + 1;
  for (std::size_t i = 5; i < 10; ++i) EXPECT_EQ(ids(ahead[i - 5]), ids(steps[i])) << i + 1;
  EXPECT_EQ(steps[4]["sequence_length"], 4);
  EXPECT_EQ(steps[13]["sequence_length"], 8);
  std::set<int> left;
  for (std::size_t i = 10; i < 14; ++i)
    for (const Json& sample : steps[i]["samples"]) left.insert(sample["targets"].get<int>());
  EXPECT_LT(*left.begin(), 8) << "what the epoch has trained on already";
}

TEST_F(Batches, AreReadableAndChangeNothing) {
  train({"--run", "run", "--steps", "5"});
  const auto before = tree("run");
  const Result result = train({"--run", "run", "--batches", "6"});
  const Json step = batches({"--run", "run", "--batches", "6"})[0];
  EXPECT_TRUE(result.out.starts_with("step 6, epoch 0: 4 samples of 4 tokens\n")) << result.out;
  for (const Json& sample : step["samples"])
    EXPECT_TRUE(contains(result.out, "  " + std::to_string(sample["id"].get<int>()) + "  " +
                                         fs::path(sample["file"].get<std::string>()).filename().string() +
                                         " from token " + std::to_string(sample["token"].get<int>()) + "\n"))
        << result.out;
  EXPECT_TRUE(tree("run") == before);
}

/// A trainer holds its folder's lock, but --batches need not wait for it.
TEST_F(Batches, OfARunThatTrains) {
  const pid_t child = start({"--run", "run"}, {"FAKE_GATES=7"});
  wait_for_gate(child, 7);
  fs::rename(folder_ / "out", folder_ / "kept");
  EXPECT_EQ(batches({"--run", "run", "--batches", "3:10"}).size(), 10u);
  open_gate(7);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(Batches, RefuseWhatTheRunDoesNotHave) {
  for (const char* wrong : {"0", "-1", "x", "3:", "3:0", "3:x", "3:4:5", ":3", "1.5", "99999999999999999999"})
    refuse(2, {"--batches=" + std::string(wrong)}, {"--batches", wrong, "20:5"});
  refuse(2, {"--batches", "21"}, {"21 to 21", "20"});
  refuse(2, {"--batches", "20:2"}, {"20 to 21", "20"});
  refuse(2, {"--batches", "1", "--plan"}, "excludes");
  refuse(2, {"--batches", "1", "--trace", "t"}, "Leave out --trace");
  refuse(2, {"--text"}, "requires --batches");
  refuse(2, {"--json"}, {"--json", "--plan", "--batches"});
  refuse(2, {"--batches", "900000000000", "schedule.steps=1000000000000", "batch.tokens=1000000000000"}, "2^63");
  refuse(5, {"--batches", "1", "data.train.path=missing"}, "no file matches");
  train({"--run", "run", "--steps", "5"});
  refuse(6, {"--run", "run", "--resume", "none", "--batches", "1"}, {"'run'", "--resume none"});
  // As written by an older llmc.
  std::string history = read_file(folder_ / "run/history.jsonl");
  history.replace(history.find("\"order\""), 7, "\"older\"");
  std::ofstream(folder_ / "run/history.jsonl") << history;
  refuse(6, {"--run", "run", "--batches", "3"}, {"step 3", "'run'", "history.jsonl", "steps from 6"});
  EXPECT_EQ(batches({"--run", "run", "--batches", "6"}).size(), 1u);
}

}  // namespace
}  // namespace llmc::fake
