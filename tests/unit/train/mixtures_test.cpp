// Runs of several sources: what names them, what changes them at a resume, and what is refused.
#include "runs.h"

namespace llmc::fake {
namespace {

class Mixtures : public Runs {
 protected:
  void SetUp() override {
    Runs::SetUp();
    write_shard(folder_ / "data/more.bin", 81, 4);  // 20 samples of 4 tokens; web has 15, code has 10
  }
  /// The words of a run with two sources in place of the trainer's one.
  static Words mixed(const std::string& run, const Words& others = {}) {
    Words words = {"--run", run, "data.train.path=", "data.train.web={path: data/train-0.bin, weight: 3}",
                   "data.train.code={path: data/train-1.bin, weight: 1}"};
    words.insert(words.end(), others.begin(), others.end());
    return words;
  }
  static Words kept(const std::string& run, const Words& others) {
    Words words = {"--run", run};
    words.insert(words.end(), others.begin(), others.end());
    return words;
  }
  void refuse(int code, const Words& words, const test::Facts& facts) {
    const Result result = run(words);
    EXPECT_EQ(result.status, code) << result.out << result.err;
    EXPECT_TRUE(test::has_facts(result.err, facts)) << result.err;
  }
  std::vector<std::string> names(const Words& words) {
    std::vector<std::string> all;
    std::istringstream text(train(words).out);
    for (std::string line; std::getline(text, line);) {
      const Json step = Json::parse(line);
      for (const Json& sample : step["samples"])
        all.push_back(sample["source"].get<std::string>() + ":" + std::to_string(sample["id"].get<int>()));
    }
    return all;
  }
  Json state(const std::string& run, int step) { return Json::parse(checkpoint(run, step)["state.json"]); }
};

TEST_F(Mixtures, NameTheirSamplesAndMeasureTheirSources) {
  const Result result = train(mixed("run", {"--steps", "8"}), {"FAKE_SKIP=2,5"});
  EXPECT_TRUE(test::has_facts(result.out, {"data    2 sources, 103 tokens in 2 shards", "25 samples of 4"}));
  EXPECT_TRUE(test::has_facts(result.out, {"source  code: 25.0 % of the samples", "lasts 10 steps", "0.80 epochs"}));
  EXPECT_TRUE(test::has_facts(result.out, {"source  web: 75.0 %", "5 steps", "1.60 epochs", "28.1 %"}));
  const auto metrics = lines("run/metrics.jsonl");
  EXPECT_EQ(metrics[7]["tokens/web"], 96);
  EXPECT_EQ(metrics[7]["tokens/code"], 32);
  EXPECT_EQ(metrics[7]["epochs/web"], 1.6);
  EXPECT_EQ(metrics[7]["epochs/code"], 0.8);
  EXPECT_EQ(metrics[7]["epochs"], 32.0 / 25);

  // The names of --batches are those of skipped steps, in metrics and in warnings.
  const auto second = names(kept("run", {"--batches", "2", "--json"}));
  EXPECT_EQ(metrics[1]["skipped"], second);
  EXPECT_TRUE(contains(result.err, "samples " + second[0] + ", " + second[1])) << result.err;
  const std::string shown = train(kept("run", {"--batches", "2"})).out;
  EXPECT_TRUE(contains(shown, "step 2, epochs code 0, web 0: 4 samples of 4 tokens\n  " + second[0] + "  train-"))
      << shown;
  EXPECT_EQ(names(mixed("fresh", {"--batches", "1:8", "--json"})), names(kept("run", {"--batches", "1:8", "--json"})));
  const std::string scalars = [&] {
    std::string all;
    for (const auto& entry : fs::directory_iterator(folder_ / "run/tensorboard")) all += read_file(entry.path());
    return all;
  }();
  EXPECT_TRUE(contains(scalars, "train/tokens/web") && contains(scalars, "train/epochs/code"));
}

TEST_F(Mixtures, ResumeWithTheSameBytes) {
  train(mixed("straight"));
  for (const int step : {1, 7, 13}) {
    const std::string name = "at-" + std::to_string(step);
    Words words = mixed(name, {"--steps", std::to_string(step)});
    if (step == 7) std::swap(words[3], words[4]);  // the order of the names in a spec has no effect
    train(words);
    train(kept(name, {}));
    expect_same_checkpoint("straight", name, 20);
  }
  EXPECT_EQ(state("straight", 20)["format"], "llmc-state-6");
  EXPECT_EQ(state("straight", 20)["sources"].size(), 2u);
  EXPECT_EQ(state("straight", 20)["drawn"], 80);
  // From the checkpoint alone, by a trainer whose own values are another mixture.
  train(mixed("half", {"--steps", "10"}));
  train(mixed("copy", {"--resume", "half"}));
  expect_same_checkpoint("straight", "copy", 20);
  refuse(6, {"--run", "plain", "--resume", "half"}, {"data.train.code", "none", "--allow data.train.code"});
}

TEST_F(Mixtures, AChangeIsAllowedAndHoldsFromThere) {
  const std::string more = "data.train.more={path: data/more.bin, weight: 2}";
  train(mixed("run", {"--steps", "6"}));
  refuse(6, kept("run", {"data.train.code.weight=2"}),
         {"data.train.code.weight 1", "2", "--allow data.train.code.weight"});
  refuse(6, kept("run", {more}), {"data.train.more none", "--allow data.train.more"});
  refuse(6, kept("run", {"data.train.code="}), {"data.train.code", "none", "Restore", "--allow data.train.code"});
  refuse(6, kept("run", {"data.train.web=data/more.bin"}), {"data.train.web", "--allow data.train.web"});
  refuse(6, kept("run", {"data.train.web.most_epochs=9"}), {"data.train.web.most_epochs none", "9", "--allow"});
  refuse(2, kept("run", {"--allow", "data.train.web.format"}), {"data.train.web.format", "data.train.NAME.weight"});
  EXPECT_EQ(train(kept("run", {"data.train.code.weight=10", "data.train.web.weight=30", "--steps", "7"})).status, 0)
      << "the same mixture";

  // Weights of which one changes, and a source that is added: equal however often the run is stopped.
  for (const std::string name : {"once", "twice"}) {
    fs::copy(folder_ / "run", folder_ / name, fs::copy_options::recursive);
    train(kept(name, {more, "data.train.code.weight=15", "--allow", "data.train.code.weight", "--allow",
                      "data.train.more.weight", "--steps", name == "once" ? "20" : "11"}));
  }
  train(kept("twice", {}));
  expect_same_checkpoint("once", "twice", 20);
  const Json last = lines("once/history.jsonl").back();
  EXPECT_EQ(last["changed"]["data.train.code.weight"].dump(), R"(["10","15"])");
  EXPECT_EQ(last["changed"]["data.train.more.weight"].dump(), R"(["none","2"])");
  // 52 samples of 15, 2 and 30 parts since step 7.
  const auto since = names(kept("once", {"--batches", "8:13", "--json"}));
  ASSERT_EQ(since.size(), 52u);
  std::map<std::string, double> counts;
  for (std::size_t n = 1; n <= since.size(); ++n) {
    ++counts[since[n - 1].substr(0, since[n - 1].find(':'))];
    EXPECT_LT(std::abs(counts["code"] - 15.0 / 47 * static_cast<double>(n)), 1);
    EXPECT_LT(std::abs(counts["more"] - 2.0 / 47 * static_cast<double>(n)), 1);
  }
  EXPECT_EQ(names(kept("once", {"--batches", "1:7", "--json"})), names(kept("run", {"--batches", "1:7", "--json"})))
      << "samples from before the change are still known";

  fs::copy(folder_ / "run", folder_ / "one", fs::copy_options::recursive);
  train(kept("one", {"data.train.code=", "--allow", "data.train.code", "--steps", "9"}));
  refuse(6, kept("one", {"--batches", "7"}), {"step 7", "steps from 8 on", "data.train.code is given", "--allow"});
  EXPECT_EQ(names(kept("one", {"--batches", "8:2", "--json"})).size(), 8u) << "of web alone";
  const std::string code = "data.train.code={path: data/train-1.bin, weight: 1}";
  EXPECT_EQ(names(kept("one", {"--batches", "7", "--json", code, "--allow", "data.train"})),
            names(kept("run", {"--batches", "7", "--json"})));
  train(kept("one", {code, "--allow", "data.train.code.weight"}));

  train(kept("run", {"data.train.web=", "data.train.more=data/more.bin", "--allow", "data.train", "--steps", "9",
                     "data.train.more.weight=4"}));
  EXPECT_EQ(state("run", 9)["sources"].size(), 3u) << "what is gone keeps its place";
}

TEST_F(Mixtures, RefuseARunThatRepeatsTooMuch) {
  // 80 samples: 60 of web, which has 15.
  refuse(5, mixed("run", {"data.train.web.most_epochs=3"}),
         {"data.train.web", "4.00", "20 steps", "3", "15 steps", "schedule.steps=15"});
  EXPECT_FALSE(fs::exists(folder_ / "run"));
  train(mixed("run", {"data.train.web.most_epochs=3", "--steps", "15"}));
  refuse(5, kept("run", {}), {"data.train.web", "20 steps", "15 steps", "data.train.web.most_epochs"});
  train(kept("run", {"data.train.web.most_epochs=4", "--allow", "data.train.web.most_epochs"}));
}

TEST_F(Mixtures, RefuseWhatNamesNoMixture) {
  const std::string web = "data.train.web={path: data/train-0.bin, weight: 1}";
  refuse(1, {"--run", "x", web}, {"data.train", "path", "without a name", "rest"});
  refuse(1, {"--run", "x", "data.train.path=", web, "data.train.code=data/train-1.bin"},
         {"data.train.code", "no weight"});
  refuse(1, {"--run", "x", "data.train.path="}, {"data.train.path", "required"});
  train(mixed("all", {"--steps", "1"}));
  refuse(1, kept("all", {"data.train.web=", "data.train.code="}),
         {"data.train.path is required", "data.train.web=PATH"});
  for (const char* weight : {"0", "-1", "x", "1e13"})
    refuse(2, {"--run", "x", "data.train.path=", web, "data.train.web.weight=" + std::string(weight)},
           {"data.train.web.weight"});
  refuse(5, mixed("x", {"data.train.none=data/none-*.bin", "data.train.none.weight=1"}),
         {"none-*.bin", "data.train.none"});
  const Result twice = train(mixed("y", {"data.train.all={path: data/train-*.bin, weight: 1}", "--steps", "1"}));
  EXPECT_TRUE(test::has_facts(twice.err, {"data.train.all and data.train.code both name", "train-1.bin'"}))
      << twice.err;
  // A mixture of one needs no weight.
  train({"--run", "one", "data.train.path=", "data.train.web=data/train-*.bin", "--steps", "3"});
  EXPECT_EQ(lines("one/metrics.jsonl")[2]["tokens/web"], 48);
}

}  // namespace
}  // namespace llmc::fake
