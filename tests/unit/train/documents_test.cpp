// Runs whose documents mask targets: where the separator comes from, and what a resume refuses.
#include "runs.h"

namespace llmc::fake {
namespace {

class RunsOfDocuments : public Runs {
 protected:
  static Words masking(const std::string& run, const Words& others = {}) {
    Words words = {"--run", run, "data.documents.mask_first=true"};
    words.insert(words.end(), others.begin(), others.end());
    return words;
  }
  void refuse(int code, const Words& words, const test::Facts& facts) {
    const Result result = run(words);
    EXPECT_EQ(result.status, code) << result.out << result.err;
    EXPECT_TRUE(test::has_facts(result.err, facts)) << result.err;
  }
  double first_loss(const std::string& run) { return lines(run + "/metrics.jsonl")[0]["loss"]; }
};

TEST_F(RunsOfDocuments, NeedASeparator) {
  refuse(5, masking("run"), {"data.documents.mask_first", ".idx", "dataset.json", "data.documents.separator: ID"});
  refuse(5, masking("run", {"data.documents.separator=12"}), {"token 12", "below 12"});
  EXPECT_FALSE(fs::exists(folder_ / "run")) << "nothing is left of a refused run";
}

TEST_F(RunsOfDocuments, LeaveOutTargetsAfterIt) {
  train({"--run", "all", "--steps", "2"});
  train(masking("run", {"--steps", "2", "data.documents.separator=6"}));
  EXPECT_NE(first_loss("all"), first_loss("run"));
  train({"--run", "none", "--steps", "2", "data.documents.separator=6"});
  EXPECT_EQ(first_loss("all"), first_loss("none"));
}

TEST_F(RunsOfDocuments, KeepTheirRuleAtAResume) {
  train(masking("straight", {"data.documents.separator=6"}));
  train(masking("run", {"data.documents.separator=6", "--steps", "7"}));
  refuse(6, {"--run", "run", "data.documents.separator=5"}, {"data.documents.separator", "6", "5", "--allow"});
  refuse(6, {"--run", "run", "data.documents.mask_first=false"}, {"data.documents.mask_first", "--allow"});
  EXPECT_TRUE(contains(train({"--run", "run"}).out, "docs    each ends with token 6"));
  expect_same_checkpoint("straight", "run", 20);
  train(masking("other", {"data.documents.separator=6", "--steps", "7"}));
  train({"--run", "other", "data.documents.separator=5", "--allow", "data.documents.separator"});
}

}  // namespace
}  // namespace llmc::fake
