// Saving and loading: layout, equality, sharding, retention, and refusal of another model's checkpoint.
#include "checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <map>

#include "../facts.h"
#include "checkpoint/safetensors.h"
#include "error.h"
#include "small_state.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;

fs::path save(const fs::path& run, std::int64_t step, const SaveOptions& options = {}) {
  SmallState state(static_cast<float>(step + 1));
  return save_checkpoint(run, small_train_state(step), kTexts, small_parameters(), state.access, options);
}

std::map<std::string, std::string> contents(const fs::path& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(directory))
    files[entry.path().filename().string()] = read_all(entry.path());
  return files;
}

std::string steps(const fs::path& run) {
  std::string text;
  for (const CheckpointEntry& checkpoint : list_checkpoints(run)) text += std::to_string(checkpoint.step) + " ";
  return text;
}

std::string failure(const std::function<void()>& action) try {
  action();
  return "no failure";
} catch (const Failure& failure) {
  EXPECT_EQ(failure.code(), Exit::checkpoint);
  return failure.what();
}

#define EXPECT_CONTAINS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << (text)

TEST(Checkpoint, LayoutAndRoundTrip) {
  test::Folder run;
  const fs::path saved = save(run.path, 100);
  EXPECT_EQ(saved, run.path / "checkpoints" / "step-00000100");
  std::string names;
  for (const auto& [name, content] : contents(saved)) names += name + " ";
  EXPECT_EQ(names, "config.json manifest.json model.safetensors optimizer.safetensors spec.yaml state.json ");
  EXPECT_EQ(read_all(saved / "config.json"), kTexts.config_json);

  const safetensors::Reader model(saved / "model.safetensors");
  EXPECT_EQ(model.entries().size(), 7u);
  EXPECT_EQ(model.find("lm_head.weight"), nullptr);
  EXPECT_EQ(model.find("model.layers.0.mlp.down_proj.weight")->shape, (std::vector<std::int64_t>{6, 13}));
  EXPECT_EQ(model.find("model.norm.weight")->shape, std::vector<std::int64_t>{6});
  EXPECT_EQ(safetensors::Reader(saved / "optimizer.safetensors").entries().size(), 14u);

  const auto latest = find_latest_checkpoint(run.path, {});
  ASSERT_TRUE(latest);
  SmallState loaded;
  EXPECT_EQ(load_checkpoint(latest->path, small_parameters(), loaded.access, Trust::unverified),
            small_train_state(100));
  EXPECT_TRUE(loaded == SmallState(101));
}

TEST(Checkpoint, EqualStateGivesEqualBytesWhateverTheFolder) {
  test::Folder a, b;
  EXPECT_EQ(contents(save(a.path, 7)), contents(save(b.path / "deeper" / "run", 7)));
  EXPECT_NE(contents(save(a.path, 8)), contents(save(b.path, 7)));
}

TEST(Checkpoint, SplitsIntoFilesInLayerOrder) {
  test::Folder run;
  const fs::path saved = save(run.path, 1, {.retention = {}, .log = {}, .shard_bytes = 300});
  const auto files = contents(saved);
  EXPECT_EQ(files.count("model.safetensors"), 0u);
  EXPECT_EQ(files.count("model-00001-of-00005.safetensors"), 1u);
  EXPECT_EQ(files.count("optimizer-00005-of-00005.safetensors"), 1u);
  // Bytes: 264 + 24 | 192 + 96 | 96 | 312, alone because it exceeds the limit | 24.
  const std::string& index = files.at("model.safetensors.index.json");
  EXPECT_CONTAINS(index, "\"model.embed_tokens.weight\": \"model-00001-of-00005.safetensors\"");
  EXPECT_CONTAINS(index, "\"model.layers.0.self_attn.q_proj.weight\": \"model-00002-of-00005.safetensors\"");
  EXPECT_CONTAINS(index, "\"model.layers.0.mlp.down_proj.weight\": \"model-00004-of-00005.safetensors\"");
  EXPECT_CONTAINS(index, "\"model.norm.weight\": \"model-00005-of-00005.safetensors\"");
  EXPECT_CONTAINS(index, "\"total_size\": " + std::to_string(4 * (66 + 6 + 48 + 24 + 24 + 78 + 6)));
  SmallState loaded;
  load_checkpoint(saved, small_parameters(), loaded.access, Trust::unverified);
  EXPECT_TRUE(loaded == SmallState(2));
}

TEST(Checkpoint, SavingAStepAgainReplacesIt) {
  test::Folder run;
  save(run.path, 5);
  write_all(run.path / "checkpoints" / "step-00000005" / "model.safetensors", "torn");
  save(run.path, 5);
  ASSERT_TRUE(find_latest_checkpoint(run.path, {}));
  EXPECT_TRUE(hidden_entries(run.path / "checkpoints").empty());
}

TEST(Checkpoint, TensorsAboveTheBlockSize) {
  // With 16 MiB blocks: a tall padded matrix of several blocks, and one whose single row exceeds a block.
  const std::int64_t tall = 700000, wide = (4 << 20) + 5;
  const std::vector<ParameterInfo> parameters = {{"tall", 0, tall, 7, 8, true, 0, 0, 0, 0},
                                                 {"wide", tall * 8, 2, wide, wide + 3, true, 0, 0, 0, 0}};
  const std::int64_t elements = tall * 8 + 2 * (wide + 3);
  std::vector<float> values(elements), zero(elements), back(elements);
  for (const ParameterInfo& p : parameters)
    for (std::int64_t r = 0; r < p.rows; ++r)
      for (std::int64_t c = 0; c < p.cols; ++c)
        values[p.offset + r * p.pitch + c] = static_cast<float>((r * 31 + c) % 8388593);
  HostState out(values.data(), zero.data(), zero.data(), elements), in(back.data(), zero.data(), zero.data(), elements);
  test::Folder run;
  const fs::path saved = save_checkpoint(run.path, small_train_state(1), kTexts, parameters, out);
  load_checkpoint(saved, parameters, in, Trust::unverified);
  EXPECT_TRUE(values == back);
}

TEST(Checkpoint, AnotherOptimizersStateBeginsAnew) {
  test::Folder run;
  const fs::path saved = save(run.path, 7);
  const SmallState source(8);
  SmallState target(5);
  HostState lion(
      {{}, {.prefix = "momentum."}},
      {reinterpret_cast<std::byte*>(target.buffers[0].data()), reinterpret_cast<std::byte*>(target.buffers[1].data())},
      kElements);
  const TrainState state = load_checkpoint(saved, small_parameters(), lion, Trust::verified);
  EXPECT_EQ(state.step, 7);
  EXPECT_EQ(state.updates(), 0);
  EXPECT_TRUE(target.buffers[0] == source.buffers[0]);
  EXPECT_TRUE(target.buffers[1] == std::vector<float>(kElements));
}

TEST(Checkpoint, RefusesAnotherModel) {
  test::Folder run;
  const fs::path saved = save(run.path, 1);
  SmallState target;
  const auto load = [&](const std::vector<ParameterInfo>& parameters) {
    return failure([&] { load_checkpoint(saved, parameters, target.access, Trust::verified); });
  };
  auto parameters = small_parameters();
  parameters[5].cols = 12;
  EXPECT_TRUE(test::has_facts(load(parameters), {"down_proj.weight'", "[6, 13]", "needs [6, 12]"}));
  EXPECT_CONTAINS(load(parameters), "model.safetensors");
  parameters = small_parameters();
  parameters[6].matrix = true;
  EXPECT_TRUE(test::has_facts(load(parameters), {"'model.norm.weight'", "[6]", "needs [1, 6]"}));
  parameters = small_parameters();
  parameters.erase(parameters.begin() + 6);
  EXPECT_TRUE(test::has_facts(load(parameters), {"'model.norm.weight'", "not a tensor"}));
  parameters = small_parameters();
  parameters.back().offset = 584;  // no longer tied: now it must be in the file
  EXPECT_CONTAINS(load(parameters), "has tensor 'lm_head.weight'");
  EXPECT_TRUE(target == SmallState()) << "nothing may be written before everything has been checked";
}

TEST(Checkpoint, OverlappingParametersAreAnInternalError) {
  auto parameters = small_parameters();
  parameters[3].offset = 253;  // the last element of q
  SmallState state(1);
  test::Folder run;
  try {
    save_checkpoint(run.path, small_train_state(1), kTexts, parameters, state.access);
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), Exit::internal);
  }
}

TEST(Checkpoint, SpaceIsCountedForEveryFile) {
  // 4 MiB of weights, and twice that of moments.
  const std::vector<ParameterInfo> parameters = {{"w", 0, 1 << 10, 1 << 10, 1 << 10, true, 0, 0.02f, 0, 1}};
  EXPECT_GE(checkpoint_bytes(parameters, HostState::adamw_buffers()), 12 << 20);
  EXPECT_LT(checkpoint_bytes(parameters, HostState::adamw_buffers()), 14 << 20);
  test::Folder run;
  const fs::path saved = save(run.path, 1);
  std::uintmax_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(saved)) bytes += entry.file_size();
  EXPECT_LE(bytes, static_cast<std::uintmax_t>(checkpoint_bytes(small_parameters(), HostState::adamw_buffers())));
}

TEST(Checkpoint, HoldsItsSpec) {
  test::Folder run;
  EXPECT_EQ(read_checkpoint_spec(save(run.path, 1)), kTexts.spec_yaml);
}

TEST(Checkpoint, AFolderThatCannotBeWrittenIsRefusedAtStart) {
  test::Folder run;
  EXPECT_NO_THROW(check_can_save(run.path, 1 << 20));
  EXPECT_TRUE(fs::is_empty(run.path / "checkpoints")) << "the probe stays";
  EXPECT_TRUE(test::has_facts(failure([&] { check_can_save(run.path, std::int64_t{1} << 60); }),
                              {"no space", "checkpoint", run.path.string(), " bytes", "--run"}));
  fs::remove(run.path / "checkpoints");
  write_all(run.path / "checkpoints", "in the way");
  EXPECT_CONTAINS(failure([&] { check_can_save(run.path, 1 << 20); }), "checkpoints");
}

TEST(SmallDisk, IsOneThatCannotHoldWhatIsKeptWhenTheRunEnds) {
  test::Folder run;
  fs::create_directory(run.path / "checkpoints");
  const auto takes = [&](const Retention& retention, const SavesAhead& ahead) {
    std::string said;
    tell_small_disk(run.path, std::int64_t{1} << 60, retention, ahead, [&](const std::string& line) { said = line; });
    EXPECT_CONTAINS(said, "has space for 0 more checkpoints of ");
    EXPECT_CONTAINS(said, "saving will fail");
    const std::size_t begin = said.find("keep_last=");
    return said.substr(begin, said.find(" more, including") - begin);
  };
  // Of 100 steps those after 10, 20 to 90 are kept at most, while that of 100 is written.
  EXPECT_EQ(takes({2}, {0, 100, 10}), "keep_last=2 takes 3");
  EXPECT_EQ(takes({}, {0, 100, 10}), "keep_last=0 takes 10");
  EXPECT_EQ(takes({20}, {0, 100, 10}), "keep_last=20 takes 10") << "the run makes no more";
  EXPECT_EQ(takes({2}, {80, 100, 10}), "keep_last=2 takes 2");
  EXPECT_EQ(takes({2, 30}, {0, 100, 10}), "keep_last=2 with keep_every=30 takes 5") << "80 and 90, 30 and 60";
  EXPECT_EQ(takes({2, 30}, {40, 100, 10}), "keep_last=2 with keep_every=30 takes 4");
  EXPECT_EQ(takes({2, 20}, {0, 100, 30}), "keep_last=2 takes 3") << "60 is one of the newest";
  EXPECT_EQ(takes({1, 20}, {0, 100, 30}), "keep_last=1 with keep_every=20 takes 3") << "90 and 60";
  EXPECT_EQ(takes({2}, {0, 100, 10, 5}), "keep_last=2 with the best takes 4");
  EXPECT_EQ(takes({2}, {0, 100, 10, 80}), "keep_last=2 takes 3") << "the only evaluation is one of the newest";
  EXPECT_EQ(takes({2, 30}, {0, 100, 10, 0, {15, 60, 95}}),
            "keep_last=2 with keep_every=30 and borders of phases takes 6");
  EXPECT_EQ(takes({1}, {0, 100, 0, 0, {15, 40}}), "keep_last=1 with borders of phases takes 3");
  for (const std::int64_t step : {10, 20, 25, 30}) save(run.path, step);
  EXPECT_EQ(takes({2}, {30, 100, 10, 5, {25}}), "keep_last=2 with the best takes 1");
  EXPECT_EQ(takes({4}, {30, 100, 10, 5, {25}}), "keep_last=4 with the best takes 3");
  EXPECT_EQ(takes({4, 0, {}, 20}, {30, 100, 10, 5, {25}}), "keep_last=4 takes 3") << "the best is there";
}

TEST(Retention, KeepsTheNewestAndTheMultiples) {
  const auto kept = [](Retention retention, int last) {
    test::Folder run;
    for (int step = 1; step <= last; ++step) save(run.path, step * 10, {.retention = retention, .log = {}});
    EXPECT_TRUE(hidden_entries(run.path / "checkpoints").empty());
    return steps(run.path);
  };
  EXPECT_EQ(kept({0, 0}, 4), "10 20 30 40 ");
  EXPECT_EQ(kept({1, 0}, 4), "40 ");
  EXPECT_EQ(kept({2, 0}, 4), "30 40 ");
  EXPECT_EQ(kept({5, 0}, 4), "10 20 30 40 ");
  EXPECT_EQ(kept({1, 20}, 5), "20 40 50 ");
  EXPECT_EQ(kept({2, 30}, 7), "30 60 70 ");
  EXPECT_EQ(kept({9223372036854775807, 1}, 3), "10 20 30 ");
}

TEST(Retention, DamagedOnesDoNotCountAndStay) {
  test::Folder run;
  for (int step = 1; step <= 3; ++step) save(run.path, step);
  fs::remove(run.path / "checkpoints" / "step-00000003" / "manifest.json");
  std::string log;
  save(run.path, 4, {.retention = {2, 0}, .log = [&](const std::string& line) { log += line + "\n"; }});
  EXPECT_EQ(steps(run.path), "2 3 4 ");
  EXPECT_CONTAINS(log, "step-00000003' is damaged");
}

TEST(Retention, AfterASetBackTheNewOneStaysAndLaterOnesDoNotCount) {
  test::Folder run;
  for (int step = 1; step <= 4; ++step) save(run.path, step * 10);
  save(run.path, 25, {.retention = {1, 0}, .log = {}});
  EXPECT_EQ(steps(run.path), "25 30 40 ");
}

TEST(Retention, OnlyOurOwnNamesAreTouched) {
  test::Folder run;
  save(run.path, 1);
  const fs::path parent = run.path / "checkpoints";
  for (const char* name : {"step-2", "step-00000002.bak", "best", ".tmp-other", ".git"})
    fs::create_directory(parent / name);
  fs::create_directory(parent / ".tmp-step-00000009");
  fs::create_directory(parent / ".trash-step-00000008");
  save(run.path, 3, {.retention = {1, 0}, .log = {}});
  EXPECT_EQ(steps(run.path), "3 ");
  for (const char* name : {"step-2", "step-00000002.bak", "best", ".tmp-other", ".git"})
    EXPECT_TRUE(fs::exists(parent / name)) << name;
  EXPECT_FALSE(fs::exists(parent / ".tmp-step-00000009"));
  EXPECT_FALSE(fs::exists(parent / ".trash-step-00000008"));
}

/// Source of state that fails midway through a save, as a lost device would.
class BrokenState final : public StateAccess {
 public:
  std::span<const SavedBuffer> buffers() const override { return buffers_; }
  void gather(std::size_t, const ParameterInfo&) override {}
  void read(std::size_t buffer, std::int64_t, std::int64_t, std::byte*) override {
    if (buffer == 2) throw Failure(Exit::checkpoint, "device lost");
  }
  void write(std::size_t, std::int64_t, std::int64_t, const std::byte*) override {}

 private:
  std::vector<SavedBuffer> buffers_ = HostState::adamw_buffers();
};

TEST(Checkpoint, AFailedSaveLeavesTheOldOneAndNoJunk) {
  test::Folder run;
  save(run.path, 1);
  BrokenState broken;
  EXPECT_THROW(save_checkpoint(run.path, small_train_state(2), kTexts, small_parameters(), broken,
                               {.retention = {1, 0}, .log = {}}),
               Failure);
  EXPECT_EQ(steps(run.path), "1 ");
  EXPECT_TRUE(hidden_entries(run.path / "checkpoints").empty());
  EXPECT_TRUE(find_latest_checkpoint(run.path, {}));
}

}  // namespace
}  // namespace llmc
