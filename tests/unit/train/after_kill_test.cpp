// A run killed before any call that changes a file, and restarted: everything after a save equals a run that was never
// killed.
#include "runs.h"

namespace llmc::fake {
namespace {

class AfterKill : public Runs {
 protected:
  void SetUp() override {
    Runs::SetUp();
    words_ = {"--steps",
              "8",
              "checkpoint.every=2",
              "checkpoint.keep_last=2",
              "checkpoint.best=validation",
              "checkpoint.mirror_every=2",
              "evaluation.every=1",
              "sampling.every=4",
              "optimizer.lr=0.5",
              "data.validation.train=" + (folder_ / "data/train-*.bin").string()};
  }
  Words with(const std::string& run) const {
    Words words = words_;
    words.insert(words.end(), {"--run", run, "checkpoint.mirror=" + (folder_ / (run + "-mirror")).string()});
    return words;
  }

  /// Content of a run and its mirror by path, except times and files that each start rewrites.
  std::map<std::string, std::string> tree(const std::string& run) const {
    std::map<std::string, std::string> files;
    const std::string mirror = run + "-mirror";
    for (const auto& [folder, name] : std::map<std::string, std::string>{{run + "/checkpoints", "checkpoints"},
                                                                         {mirror + "/checkpoints", "mirror"}}) {
      if (!fs::exists(folder_ / folder)) continue;
      for (const auto& entry : fs::recursive_directory_iterator(folder_ / folder)) {
        const std::string path = name + "/" + fs::relative(entry.path(), folder_ / folder).string();
        files[path] = entry.is_directory() ? "" : read_file(entry.path());
      }
    }
    for (Json line : lines(run + "/metrics.jsonl")) {
      for (const char* key : {"tokens_per_second", "seconds", "total_seconds", "data_wait", "evaluation_seconds",
                              "saving_seconds", "memory", "resident", "product_share"})
        line.erase(key);
      files["metrics"] += line.dump() + "\n";
    }
    files["samples"] = read_file(folder_ / run / "samples.jsonl");
    files["saved"] = read_file(folder_ / run / "state/saved");
    return files;
  }
  /// Names of the files that differ.
  static std::string difference(const std::map<std::string, std::string>& a,
                                const std::map<std::string, std::string>& b) {
    std::string names;
    for (const auto& [name, text] : a)
      if (!b.count(name)) names += " -" + name;
    for (const auto& [name, text] : b)
      if (!a.count(name)) names += " +" + name;
    for (const auto& [name, text] : a)
      if (b.count(name) && b.at(name) != text) names += " " + name;
    return names;
  }

  Words words_;
};

/// LLMC_EVERY_CALL=1 kills before each call; otherwise before some.
TEST_F(AfterKill, TheWholeTreeIsThatOfARunNeverKilled) {
  train(with("clean"));
  const auto clean = tree("clean");
  ASSERT_TRUE(clean.count("checkpoints/best.json") && clean.count("mirror/step-00000008") &&
              clean.count("mirror/step-00000004"));
  ASSERT_FALSE(clean.count("mirror/step-00000006"));
  const std::string shim = std::string("LD_PRELOAD=") + LLMC_FAIL_SHIM;
  const char* every = std::getenv("LLMC_EVERY_CALL");
  const int stride = every ? std::max(1, std::atoi(every)) : 7;
  int kills = 0;
  for (int n = 1;; n += stride) {
    for (const char* folder : {"run", "run-mirror"}) fs::remove_all(folder_ / folder);
    const Result killed = run(with("run"), {shim, "LLMC_FAIL_MODE=KILL", "LLMC_FAIL_CALL=" + std::to_string(n)});
    if (killed.status == 0) break;
    ASSERT_EQ(killed.status, 128 + SIGKILL) << n << killed.err;
    ++kills;
    train(with("run"));
    EXPECT_EQ(difference(clean, tree("run")), "") << "killed before call " << n;
  }
  std::fprintf(stderr, "killed %d times\n", kills);
  EXPECT_GE(kills * stride, 400);
}

class AfterSave : public Runs {};

TEST_F(AfterSave, AFailedRecordDoesNotSkipTheMirror) {
  const std::string mirror = "checkpoint.mirror=" + (folder_ / "mirror").string();
  for (const char* steps : {"2", "5"})
    train({"--run", "run", "checkpoint.best=validation", "evaluation.every=5", "--steps", steps});
  fs::remove(folder_ / "run/checkpoints/best.json");
  fs::create_directory(folder_ / "run/checkpoints/best.json");  // blocks best.json
  const Result result = train({"--run", "run", mirror, "checkpoint.keep_last=1", "optimizer.lr=0.5"});
  EXPECT_TRUE(contains(result.err, "best.json' is a folder") && contains(result.err, "Training continues"))
      << result.err;
  EXPECT_EQ(checkpoint("mirror", 20).size(), 6u);
  EXPECT_EQ(checkpoint("run", 2).size(), 0u) << "retention is done, too";
  const Json state = Json::parse(checkpoint("run", 20).at("state.json"));
  EXPECT_FALSE(checkpoint("run", state["best"]["step"].get<int>()).empty()) << "the best stays";
}

}  // namespace
}  // namespace llmc::fake
