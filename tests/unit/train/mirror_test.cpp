// checkpoint.mirror belongs to one run; another run is refused with advice.
#include <fcntl.h>
#include <sys/file.h>

#include "runs.h"

namespace llmc::fake {
namespace {

class MirrorOfARun : public Runs {
 protected:
  Words with(const std::string& run, const Words& more = {}) const {
    Words words = {"--run",           run, "checkpoint.mirror=" + mirror(), "checkpoint.every=2", "evaluation.every=0",
                   "sampling.every=0"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::string mirror() const { return (folder_ / "mirror").string(); }
  void refused(const Words& words, const test::Facts& reason) {
    const std::string before = names();
    const Result result = run(words);
    EXPECT_EQ(result.status, 6) << result.out << result.err;
    test::Facts facts = "checkpoint.mirror '" + mirror() + "' ";
    facts.insert(facts.end(), reason.begin(), reason.end());
    EXPECT_TRUE(test::has_facts(result.err, facts));
    EXPECT_EQ(names(), before) << "a refused start changes no mirror";
  }
  /// Content of every file of the mirror.
  std::string names() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(mirror()))
      files[entry.path()] = entry.is_directory() ? "" : read_file(entry.path());
    std::string text;
    for (const auto& [name, content] : files) text += name + "\n" + content + "\n";
    return text;
  }
  void expect_copy(const std::string& run, int step) const {
    EXPECT_FALSE(checkpoint("mirror", step).empty());
    EXPECT_TRUE(checkpoint("mirror", step) == checkpoint(run, step)) << run << " " << step;
  }
};

TEST_F(MirrorOfARun, TwoRunsOfASweepDoNotShareOne) {
  train(with("a", {"--steps", "6"}));
  refused(with("b", {"optimizer.lr=0.2"}),
          {"belongs to", (folder_ / "a").string(), "checkpoint.mirror=" + mirror() + "-b"});
  EXPECT_FALSE(fs::exists(folder_ / "b")) << "a refused start leaves no run folder";
  train({"--run", "b", "checkpoint.mirror=" + mirror() + "-b", "--steps", "4"});
  train(with("a"));
  expect_copy("a", 20);
  // Also if it starts from the mirror of a run that still exists.
  refused(with("c", {"--resume", mirror(), "schedule.steps=21"}), {"belongs to", (folder_ / "a").string()});
  train({"--run", "c", "--resume", mirror(), "schedule.steps=21"});
}

TEST_F(MirrorOfARun, ARunBegunAnewInTheSameFolderIsAnother) {
  train(with("run", {"--steps", "6"}));
  fs::remove_all(folder_ / "run");
  refused(with("run"), {"belongs to", (folder_ / "run").string(), "checkpoint.mirror="});
}

TEST_F(MirrorOfARun, WhoGoesOnFromItTakesItOverWhereItsRunIsGone) {
  train(with("run", {"--steps", "6"}));
  train({"--run", "clean"});
  fs::rename(folder_ / "run", folder_ / "lost");
  const Result on = train(with("again", {"--resume", mirror()}));
  EXPECT_TRUE(test::has_facts(on.err, {mirror(), (folder_ / "run").string(), "is gone", "now belongs to"}));
  expect_same_checkpoint("clean", "again", 20);
  expect_copy("again", 20);
  EXPECT_FALSE(contains(train(with("again", {"schedule.steps=21"})).err, "mirror"));
  refused(with("lost"), {"belongs to", (folder_ / "again").string() + "'"});
}

TEST_F(MirrorOfARun, ARunFolderMayBeMovedAndItsCopyIsAnotherRun) {
  train(with("run", {"--steps", "6"}));
  fs::rename(folder_ / "run", folder_ / "moved");
  train(with("moved", {"--steps", "8"}));
  fs::copy(folder_ / "moved", folder_ / "copy", fs::copy_options::recursive);
  refused(with("copy"),
          {"belongs to", (folder_ / "moved").string(), (folder_ / "copy").string(), "is a copy", "checkpoint.mirror="});
  train(with("moved"));
  expect_copy("moved", 20);
}

TEST_F(MirrorOfARun, ARunThatWentBackSaysSo) {
  train(with("run", {"--steps", "6"}));
  fs::remove_all(folder_ / "run/checkpoints/step-00000006");
  refused(with("run"), {"'step-00000006'", "resumes at step 4", "--resume " + mirror(), "remove"});
  fs::remove_all(folder_ / "mirror/checkpoints/step-00000006");
  train(with("run", {"--steps", "8"}));
  expect_copy("run", 8);
  // A checkpoint damaged in the run folder is skipped there and written anew.
  fs::resize_file(folder_ / "run/checkpoints/step-00000008/model.safetensors", 10);
  train(with("run"));
  train({"--run", "clean"});
  expect_same_checkpoint("clean", "run", 20);
  expect_copy("run", 8);
}

TEST_F(MirrorOfARun, LostCheckpointsComeBackFromIt) {
  train(with("run", {"--steps", "6"}));
  fs::remove_all(folder_ / "run/checkpoints");
  const Result lost = run(with("run"));
  EXPECT_EQ(lost.status, 6);
  EXPECT_TRUE(test::has_facts(lost.err, {"checkpoints", "step 6", "--resume " + mirror() + "."}));
  train(with("run", {"--resume", mirror()}));
  train({"--run", "clean"});
  expect_same_checkpoint("clean", "run", 20);
  EXPECT_EQ(lines("run/metrics.jsonl").size(), 20u);
}

TEST_F(MirrorOfARun, OfAnOlderLlmcIsKnownByItsManifests) {
  train(with("run", {"--steps", "6"}));
  train({"--run", "other", "--steps", "6", "checkpoint.every=2", "optimizer.lr=0.2"});
  train({"--run", "new", "--steps", "1", "--no-final-checkpoint"});
  const auto unmark = [&] { fs::remove(folder_ / "mirror/state/mirror_of"); };
  unmark();
  refused(with("other"), {"of another run", "'step-00000002'", "checkpoint.mirror="});
  refused(with("new"), {"none of which"});
  train(with("run"));
  expect_copy("run", 20);
  EXPECT_TRUE(fs::exists(folder_ / "mirror/state/mirror_of"));
}

TEST_F(MirrorOfARun, OneRunAtATimeWritesToIt) {
  train(with("run", {"--steps", "6"}));
  const int lock = ::open((folder_ / "mirror/state/lock").c_str(), O_RDWR);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  const Result second = run(with("run"));
  ::close(lock);
  EXPECT_EQ(second.status, 6);
  EXPECT_TRUE(test::has_facts(second.err, {"another trainer", mirror(), "another checkpoint.mirror"}));
}

}  // namespace
}  // namespace llmc::fake
