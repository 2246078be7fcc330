// Links planted in a run folder or a mirror: nothing is read, written or removed through them.
#include "runs.h"

namespace llmc::fake {
namespace {

class PlantedLinks : public Runs {
 protected:
  /// Content of every file below `folder`.
  static std::map<std::string, std::string> files(const fs::path& folder) {
    std::map<std::string, std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      found[entry.path()] = entry.is_directory() ? "" : read_file(entry.path());
    return found;
  }
  /// Moves RUN/NAME out of its folder and replaces it by a link.
  void plant(const fs::path& in, const std::string& name) {
    const fs::path outside = folder_ / "outside" / name, inside = folder_ / in / name;
    fs::create_directories(outside.parent_path());
    if (fs::exists(inside))
      fs::rename(inside, outside);
    else
      std::ofstream(outside) << "mine";
    fs::create_symlink(outside, inside);
  }
};

TEST_F(PlantedLinks, AreFollowedUnderNoName) {
  const Words words = {"--run", "run", "checkpoint.best=validation", "checkpoint.keep_last=1",
                       "checkpoint.mirror=mirror"};
  const auto until = [&](const char* step) {
    Words more = words;
    more.insert(more.end(), {"--steps", step});
    return more;
  };
  train(until("5"));
  fs::create_directory(folder_ / "run/ranks");
  fs::rename(folder_ / "run", folder_ / "kept");
  fs::rename(folder_ / "mirror", folder_ / "kept-mirror");
  const std::string events = fs::directory_iterator(folder_ / "kept/tensorboard")->path().filename();
  const std::vector<std::pair<std::string, std::string>> names = {{"run", "spec.yaml"},
                                                                  {"run", "plan.json"},
                                                                  {"run", "history.jsonl"},
                                                                  {"run", "metrics.jsonl"},
                                                                  {"run", "samples.jsonl"},
                                                                  {"run", "state"},
                                                                  {"run", "state/lock"},
                                                                  {"run", "state/model"},
                                                                  {"run", "state/run"},
                                                                  {"run", "state/saved"},
                                                                  {"run", "tensorboard"},
                                                                  {"run", "tensorboard/" + events},
                                                                  {"run", "ranks"},
                                                                  {"run", "ranks/rank-0001.log"},
                                                                  {"run", "checkpoints"},
                                                                  {"run", "checkpoints/best.json"},
                                                                  {"run", "checkpoints/step-00000005"},
                                                                  {"run", ".tmp-metrics.jsonl"},
                                                                  {"mirror", "state"},
                                                                  {"mirror", "state/lock"},
                                                                  {"mirror", "state/mirror_of"},
                                                                  {"mirror", "checkpoints"},
                                                                  {"mirror", "checkpoints/step-00000005"}};
  for (const auto& [folder, name] : names) {
    for (const char* old : {"run", "mirror", "outside"}) fs::remove_all(folder_ / old);
    fs::copy(folder_ / "kept", folder_ / "run", fs::copy_options::recursive);
    fs::copy(folder_ / "kept-mirror", folder_ / "mirror", fs::copy_options::recursive);
    plant(folder, name);
    const auto before = files(folder_ / "outside");
    const Result result = run(words);
    EXPECT_EQ(result.status, 6) << folder << "/" << name << result.out << result.err;
    EXPECT_TRUE(test::has_facts(result.err, {folder + "/" + name + "'", "a link", "not followed"})) << name;
    EXPECT_TRUE(files(folder_ / "outside") == before) << folder << "/" << name;
  }
}

TEST_F(PlantedLinks, ARunFolderMayBeALinkAndSoMayFilesOfOtherNames) {
  train({"--run", "far", "--steps", "5"});
  fs::create_symlink("far", folder_ / "link");
  fs::create_symlink("../data", folder_ / "far/data");
  fs::create_symlink("step-00000005", folder_ / "far/checkpoints/latest");
  train({"--run", "link", "checkpoint.mirror=mirror"});
  train({"--run", "clean"});
  expect_same_checkpoint("clean", "far", 20);
}

TEST_F(PlantedLinks, OnesThatComeWhileARunTrainsAreNotFollowed) {
  const pid_t child = start({"--run", "run", "checkpoint.best=validation"}, {"FAKE_GATES=3"});
  wait_for_gate(child, 3);
  std::ofstream(folder_ / "outside") << "mine";
  fs::create_symlink(folder_ / "outside", folder_ / "run/checkpoints/best.json");
  fs::create_symlink(folder_ / "outside", folder_ / "run/state/saved");
  open_gate(3);
  const Result result = finish(child);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(contains(result.err, "best.json' is a link")) << result.err;
  EXPECT_EQ(read_file(folder_ / "outside"), "mine");
}

}  // namespace
}  // namespace llmc::fake
