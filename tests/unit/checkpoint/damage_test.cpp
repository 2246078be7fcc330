// Truncates, flips, zeroes or removes every file of a checkpoint: the damage is found and named, and the previous
// checkpoint is used.
#include <gtest/gtest.h>

#include <random>

#include "../facts.h"
#include "checkpoint/checkpoint.h"
#include "error.h"
#include "small_state.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;

class Damage : public testing::Test {
 protected:
  void SetUp() override {
    for (const std::int64_t step : {1, 2}) {
      SmallState state(static_cast<float>(step));
      save_checkpoint(run_.path, small_train_state(step), kTexts, small_parameters(), state.access,
                      {.retention = {}, .log = {}, .shard_bytes = 600});
    }
    newest_ = run_.path / "checkpoints" / "step-00000002";
  }
  /// Expects a message that names the newest checkpoint and `file`, and that step 1 is used.
  void expect_found(const std::string& file, const std::string& what) {
    std::string log;
    const auto latest = find_latest_checkpoint(run_.path, [&](const std::string& line) { log += line; });
    ASSERT_TRUE(latest) << what;
    EXPECT_EQ(latest->step, 1) << what;
    EXPECT_NE(log.find("step-00000002"), std::string::npos) << log;
    EXPECT_NE(log.find(file), std::string::npos) << log;
    SmallState target;
    EXPECT_THROW(load_checkpoint(newest_, small_parameters(), target.access, Trust::unverified), Failure) << what;
  }

  test::Folder run_;
  fs::path newest_;
};

TEST_F(Damage, EveryFileAtSampledOffsets) {
  std::mt19937_64 random(1);
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(newest_)) files.push_back(entry.path());
  ASSERT_EQ(files.size(), 9u);  // two shards of each kind, index, config, state, manifest
  for (const fs::path& path : files) {
    const std::string name = path.filename().string(), sound = read_all(path);
    for (int sample = 0; sample < 24; ++sample) {
      const std::size_t at = sample == 0 ? 0 : sample == 1 ? sound.size() - 1 : random() % sound.size();
      const std::string where = name + " at " + std::to_string(at);
      write_all(path, sound.substr(0, at));
      expect_found(name, where + " cut");

      std::string flipped = sound;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << random() % 8));
      write_all(path, flipped);
      expect_found("", where + " flipped");  // in the manifest, a flipped name or checksum blames that file

      std::string zeroed = sound;
      std::fill(zeroed.begin() + static_cast<std::ptrdiff_t>(at), zeroed.end(), '\0');
      if (zeroed != sound) {
        write_all(path, zeroed);
        expect_found(name, where + " zeroed");
      }
    }
    write_all(path, sound + " ");
    expect_found(name, name + " grown");
    fs::remove(path);
    expect_found(name, name + " removed");
    write_all(path, sound);
  }
  EXPECT_EQ(find_latest_checkpoint(run_.path, {})->step, 2) << "restored, it is sound again";
}

TEST_F(Damage, EveryBitOfTheManifest) {
  const fs::path path = newest_ / "manifest.json";
  const std::string sound = read_all(path);
  for (std::size_t bit = 0; bit < sound.size() * 8; ++bit) {
    std::string flipped = sound;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    write_all(path, flipped);
    ASSERT_TRUE(find_checkpoint_damage({2, newest_}, Depth::checksums)) << "bit " << bit;
  }
}

TEST_F(Damage, ADirectoryUnderAnotherName) {
  fs::rename(newest_, run_.path / "checkpoints" / "step-00000900");
  std::string log;
  EXPECT_EQ(find_latest_checkpoint(run_.path, [&](const std::string& line) { log += line; })->step, 1);
  EXPECT_TRUE(test::has_facts(log, {"step-00000900", "state.json", "step 2"}));
}

TEST_F(Damage, IncompleteNewestIsPassedOver) {
  fs::create_directory(run_.path / "checkpoints" / "step-00000003");
  fs::copy_file(newest_ / "model-00001-of-00002.safetensors",
                run_.path / "checkpoints" / "step-00000003" / "model-00001-of-00002.safetensors");
  std::string log;
  EXPECT_EQ(find_latest_checkpoint(run_.path, [&](const std::string& line) { log += line; })->step, 2);
  EXPECT_NE(log.find("step-00000003"), std::string::npos) << log;
}

/// A trainer may save and remove old checkpoints while its folder is searched.
TEST_F(Damage, ARemovedCheckpointIsNotDamaged) {
  fs::remove(newest_ / "state.json");
  std::string log;
  const auto latest = find_latest_checkpoint(run_.path, [&](const std::string& line) {
    if (log.empty()) {
      SmallState state(3);
      save_checkpoint(run_.path, small_train_state(3), kTexts, small_parameters(), state.access,
                      {.retention = {}, .log = {}, .shard_bytes = 600});
      fs::remove_all(run_.path / "checkpoints" / "step-00000001");
    }
    log += line;
  });
  ASSERT_TRUE(latest);
  EXPECT_EQ(latest->step, 3);
  EXPECT_EQ(log.find("step-00000001"), std::string::npos) << log;
}

TEST_F(Damage, AManifestNamesNoFileOutside) {
  const fs::path path = newest_ / "manifest.json";
  std::string text = read_all(path);
  // Preserves the canonical order: "../state.json" would sort first, so the path is placed in the last name.
  text.replace(text.rfind("state.json"), 10, "t/../state.json");
  write_all(path, text);
  const auto damage = find_checkpoint_damage({2, newest_}, Depth::sizes);
  ASSERT_TRUE(damage);
  EXPECT_TRUE(test::has_facts(*damage, {"manifest.json'", "outside"}));
}

TEST(NoCheckpoint, IsNoError) {
  test::Folder run;
  EXPECT_FALSE(find_latest_checkpoint(run.path, {}));
  EXPECT_FALSE(find_latest_checkpoint(run.path / "none", {}));
}

}  // namespace
}  // namespace llmc
