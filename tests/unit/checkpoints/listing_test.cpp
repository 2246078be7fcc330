// Listing a run's checkpoints, and choosing those that prune removes.
#include "compiler/tools/checkpoints/listing.h"

#include <gtest/gtest.h>

#include "../facts.h"
#include "checkpoint/best.h"
#include "run/folder_lock.h"
#include "small_run.h"

namespace llmc::checkpoints {
namespace {

namespace fs = std::filesystem;

class ListingTest : public testing::Test {
 protected:
  ListingTest() {
    RunFolder folder(run_.path, model_.spec(), {});
    folder.start("", "", "{}", 0);  // without a start nothing would be left
  }

  void save(std::initializer_list<std::int64_t> steps) {
    for (const std::int64_t step : steps) model_.save(run_.path, step);
  }
  fs::path checkpoint(std::int64_t step) { return checkpoints_directory(run_.path) / checkpoint_name(step); }
  void flip(std::int64_t step) {
    std::string content = read_all(checkpoint(step) / "model.safetensors");
    content[content.size() - 1] = static_cast<char>(content[content.size() - 1] ^ 4);
    write_all(checkpoint(step) / "model.safetensors", content);
  }
  static std::vector<std::int64_t> steps(const std::vector<Listed>& list) {
    std::vector<std::int64_t> result;
    for (const Listed& listed : list) result.push_back(listed.step);
    return result;
  }
  std::vector<std::int64_t> there() {
    std::vector<std::int64_t> result;
    for (const CheckpointEntry& entry : list_checkpoints(run_.path)) result.push_back(entry.step);
    return result;
  }
  std::string refusal(const std::function<void()>& work) {
    try {
      work();
      return "";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code(), Exit::checkpoint);
      return failure.what();
    }
  }

  using Steps = std::vector<std::int64_t>;
  SmallModel model_;
  test::Folder run_;
};

TEST_F(ListingTest, StepLossSizeAndDamage) {
  save({2, 4, 10});
  write_all(run_.path / "metrics.jsonl",
            "{\"step\":2,\"loss\":3.0,\"val_loss\":2.5}\n{\"step\":3,\"val_loss\":9}\nno \"val_loss\" of JSON\n"
            "{\"step\":\"4\",\"val_loss\":1}\n{\"step\":10,\"loss\":1}\n{\"step\":10,\"val_lo");
  fs::resize_file(checkpoint(4) / "optimizer.safetensors", 100);
  write_all(checkpoints_directory(run_.path) / "step-3", "");
  fs::create_directory(checkpoints_directory(run_.path) / ".tmp-step-00000012");
  settle_best(run_.path, Best{2, "validation", 2.5});  // llmc's own file, no stranger
  const Listing listing = list(run_.path);
  ASSERT_EQ(steps(listing.checkpoints), (Steps{2, 4, 10}));
  EXPECT_EQ(listing.strangers, (std::vector<std::string>{".tmp-step-00000012", "step-3"}));
  EXPECT_EQ(listing.checkpoints[0].val_loss, 2.5);
  EXPECT_FALSE(listing.checkpoints[1].val_loss || listing.checkpoints[2].val_loss);
  EXPECT_FALSE(listing.checkpoints[0].damage || listing.checkpoints[2].damage);
  ASSERT_TRUE(listing.checkpoints[1].damage);
  EXPECT_NE(listing.checkpoints[1].damage->find("optimizer.safetensors has 100 bytes"), std::string::npos);
  EXPECT_GT(listing.checkpoints[0].bytes,
            static_cast<std::int64_t>(fs::file_size(checkpoint(2) / "model.safetensors")));
  EXPECT_EQ(listing.checkpoints[0].time.size(), 20u);
  const std::string text = listing_text(listing);
  EXPECT_NE(text.find("2.5000  complete"), std::string::npos) << text;
  EXPECT_NE(text.find("damaged: optimizer.safetensors"), std::string::npos) << text;
}

TEST_F(ListingTest, EmptyRunsAndOtherFolders) {
  EXPECT_TRUE(list(run_.path).checkpoints.empty());
  EXPECT_EQ(listing_text(list(run_.path)), "no checkpoints\n");
  test::Folder other;
  EXPECT_TRUE(test::has_facts(refusal([&] { list(other.path); }), {other.path.string(), "no run"}));
  EXPECT_NE(refusal([&] { list(other.path / "absent"); }).find("does not exist"), std::string::npos);
  write_all(other.path / "file", "");
  EXPECT_TRUE(test::has_facts(refusal([&] { list(other.path / "file"); }), {"file'", "not a folder"}));
  save({1});
  EXPECT_NE(refusal([&] { list(checkpoint(1)); }).find("is a checkpoint"), std::string::npos);
}

TEST_F(ListingTest, KeepsTheLastMultiplesAndTheBest) {
  save({1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(steps(choose(run_.path, {.keep_last = 2, .keep_every = 0}).kept), (Steps{6, 7}));
  EXPECT_EQ(steps(choose(run_.path, {.keep_last = 0, .keep_every = 3}).kept), (Steps{3, 6, 7}));
  EXPECT_EQ(steps(choose(run_.path, {.keep_last = 100, .keep_every = 0}).removed), Steps());
  EXPECT_EQ(there(), (Steps{1, 2, 3, 4, 5, 6, 7})) << "choose() removes nothing";
  settle_best(run_.path, Best{2, "validation", 1.5});
  const Pruning pruning = prune(run_.path, {.keep_last = 2, .keep_every = 4}, {});
  EXPECT_EQ(steps(pruning.kept), (Steps{2, 4, 6, 7}));
  EXPECT_EQ(steps(pruning.removed), (Steps{1, 3, 5}));
  EXPECT_EQ(there(), (Steps{2, 4, 6, 7}));
  EXPECT_TRUE(hidden_entries(checkpoints_directory(run_.path)).empty());
}

TEST_F(ListingTest, NothingGoesWhileTheBestOneIsUnknown) {
  save({1, 2, 3});
  const fs::path best = checkpoints_directory(run_.path) / "best.json";
  for (const char* damaged :
       {"{\"step\": 1, \"valid", "{}", "[1]", "{\"step\": -1, \"validation\": \"v\", \"loss\": 1}", ""}) {
    write_all(best, damaged);
    const std::string said = refusal([&] { prune(run_.path, {.keep_last = 1, .keep_every = 0}, {}); });
    EXPECT_TRUE(test::has_facts(said, {best.string(), "Remove this file"})) << said;
    EXPECT_FALSE(refusal([&] { choose(run_.path, {.keep_last = 1, .keep_every = 0}); }).empty());
    EXPECT_EQ(steps(list(run_.path).checkpoints), (Steps{1, 2, 3}));
  }
  fs::remove(best);
  EXPECT_EQ(steps(prune(run_.path, {.keep_last = 1, .keep_every = 0}, {}).removed), (Steps{1, 2}));
}

TEST_F(ListingTest, DamagedOnesNeitherCountNorGo) {
  save({1, 2, 3, 4});
  fs::resize_file(checkpoint(3) / "state.json", 1);
  const Pruning pruning = prune(run_.path, {.keep_last = 2, .keep_every = 0}, {});
  EXPECT_EQ(steps(pruning.kept), (Steps{2, 4}));
  EXPECT_EQ(steps(pruning.damaged), (Steps{3}));
  EXPECT_EQ(there(), (Steps{2, 3, 4}));
}

TEST_F(ListingTest, TheNewestThatCanBeUsedStays) {
  save({1, 2, 3, 4});
  flip(4);  // of the right size: only its checksum differs
  flip(3);
  EXPECT_EQ(steps(prune(run_.path, {.keep_last = 1, .keep_every = 0}, {}).removed), (Steps{1, 3}));
  EXPECT_EQ(there(), (Steps{2, 4}));
  flip(2);
  EXPECT_EQ(steps(prune(run_.path, {.keep_last = 1, .keep_every = 0}, {}).removed), Steps());
}

TEST_F(ListingTest, NotBesideATrainerAndOnlyInRuns) {
  save({1, 2});
  {
    const FolderLock trainer(run_.path, "", {});
    const std::string said = refusal([&] { prune(run_.path, {.keep_last = 1, .keep_every = 0}, {}); });
    EXPECT_TRUE(test::has_facts(said, {"another trainer", run_.path.string()}));
    EXPECT_EQ(there(), (Steps{1, 2}));
  }
  // Nothing is removed through a link, and the advice differs from a trainer's.
  fs::rename(run_.path / "checkpoints", run_.path / "elsewhere");
  fs::create_directory_symlink("elsewhere", run_.path / "checkpoints");
  const std::string linked = refusal([&] { prune(run_.path, {.keep_last = 1, .keep_every = 0}, {}); });
  EXPECT_NE(linked.find("checkpoints' is a link"), std::string::npos) << linked;
  EXPECT_TRUE(linked.find("choose another run folder") != std::string::npos &&
              linked.find("--run") == std::string::npos)
      << linked;
  EXPECT_EQ(there(), (Steps{1, 2}));
  fs::remove(run_.path / "checkpoints");
  fs::rename(run_.path / "elsewhere", run_.path / "checkpoints");
  fs::remove(run_.path / "state" / "model");
  EXPECT_NE(refusal([&] { prune(run_.path, {.keep_last = 1, .keep_every = 0}, {}); }).find("no state/model"),
            std::string::npos);
  EXPECT_EQ(there(), (Steps{1, 2}));
}

}  // namespace
}  // namespace llmc::checkpoints
