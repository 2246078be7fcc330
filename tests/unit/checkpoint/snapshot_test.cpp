// Snapshots, mirrors and the best checkpoint.
#include "checkpoint/snapshot.h"

#include <gtest/gtest.h>

#include <cstring>

#include "../facts.h"
#include "checkpoint/best.h"
#include "checkpoint/mirror.h"
#include "checkpoint/parameter_stream.h"
#include "checkpoint/retention.h"
#include "checkpoint/save.h"
#include "small_state.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSmallShards = 200;

void save_step(const fs::path& run, std::int64_t step, const Retention& retention = {}) {
  SmallState state(static_cast<float>(step + 1));
  save_checkpoint(run, small_train_state(step), kTexts, small_parameters(), state.access, {retention, {}});
}

/// A snapshot of the state, which is overwritten before anything is written.
std::vector<float> memory_for(WorldRank rank, std::int64_t shard_bytes) {
  const std::size_t bytes = Snapshot::bytes(small_parameters(), HostState::adamw_buffers(), rank, shard_bytes);
  return std::vector<float>(bytes / sizeof(float));
}

TEST(Snapshots, TheCheckpointIsOfTheStateAsItWas) {
  test::Folder direct, later;
  save_step(direct.path, 7);
  SmallState state(8);
  std::vector<float> memory = memory_for({}, kShardBytes);
  Snapshot snapshot(small_parameters(), state.access.buffers(), {}, kShardBytes,
                    reinterpret_cast<std::byte*>(memory.data()));
  CheckpointSave save(later.path, small_train_state(7), kTexts, small_parameters(), state.access.buffers(), {});
  snapshot.take(state.access);
  for (auto& buffer : state.buffers) std::fill(buffer.begin(), buffer.end(), -1.0f);
  save.write(snapshot);
  save.settle();
  EXPECT_TRUE(list_checkpoints(later.path).empty()) << "it appears when it is whole";
  save.publish();
  const fs::path path = save.finish();
  for (const auto& entry : fs::directory_iterator(direct.path / "checkpoints/step-00000007"))
    EXPECT_EQ(read_all(path / entry.path().filename()), read_all(entry.path())) << entry.path();
}

TEST(Snapshots, ARankHasWhatItWritesAndNothingElse) {
  SmallState state(3);
  for (int ranks = 1; ranks <= 4; ++ranks) {
    std::size_t all = 0, most = 0;
    for (int index = 0; index < ranks; ++index) {
      const WorldRank rank{index, ranks};
      std::vector<float> memory = memory_for(rank, kSmallShards);
      Snapshot snapshot(small_parameters(), state.access.buffers(), rank, kSmallShards,
                        reinterpret_cast<std::byte*>(memory.data()));
      snapshot.take(state.access);
      for (const TensorFile& file : tensor_files(stored_parameters(small_parameters()), 3, rank, kSmallShards))
        for (const auto& [name, tensor] : tensors_of(file, state.access.buffers())) {
          const std::int64_t elements = flat_elements(*tensor.parameter), at = tensor.parameter->offset;
          std::vector<float> read(static_cast<std::size_t>(elements));
          auto* const out = reinterpret_cast<std::byte*>(read.data());
          if (file.owner != rank) {
            EXPECT_THROW(snapshot.read(tensor.buffer, at, elements, out), Failure) << name;
            continue;
          }
          snapshot.read(tensor.buffer, at, elements, out);
          const float* const original = state.buffers[tensor.buffer].data() + at;
          EXPECT_EQ(std::memcmp(read.data(), original, read.size() * sizeof(float)), 0) << name;
          snapshot.read(tensor.buffer, at + 2, 3, out);
          EXPECT_EQ(std::memcmp(read.data(), original + 2, 3 * sizeof(float)), 0) << name;
          EXPECT_THROW(snapshot.read(tensor.buffer, at, elements + 1, out), Failure) << name;
        }
      all += memory.size(), most = std::max(most, memory.size());
    }
    EXPECT_EQ(all * sizeof(float), Snapshot::bytes(small_parameters(), HostState::adamw_buffers(), {}, kSmallShards));
    EXPECT_EQ(most * sizeof(float),
              Snapshot::most_bytes(small_parameters(), HostState::adamw_buffers(), {0, ranks}, kSmallShards));
  }
}

TEST(Snapshots, AFileThatChangedOnItsWayIsReadBack) {
  test::Folder run;
  SmallState state(8);
  SaveOptions options;
  options.read_back = true;
  const fs::path hidden = AtomicDirectory::path_of(run.path / "checkpoints", checkpoint_name(7));
  for (const bool damage : {true, false}) {
    CheckpointSave save(run.path, small_train_state(7), kTexts, small_parameters(), state.access.buffers(), options);
    save.write(state.access);
    save.settle();
    if (damage) {
      std::string text = read_all(hidden / "model.safetensors");
      text[text.size() - 3] ^= 1;
      write_all(hidden / "model.safetensors", text);
    }
    save.publish();
    if (!damage) {
      EXPECT_EQ(save.finish(), run.path / "checkpoints/step-00000007");
      continue;
    }
    try {
      save.finish();
      ADD_FAILURE() << "a damaged checkpoint";
    } catch (const Failure& failure) {
      EXPECT_TRUE(test::has_facts(failure.what(), {"damaged", "read back", "model.safetensors"}));
    }
    EXPECT_TRUE(list_checkpoints(run.path).empty());
  }
}

TEST(Mirrors, HaveWholeCheckpointsAndTheirOwnRetention) {
  test::Folder run, mirror;
  for (const std::int64_t step : {10, 20, 30}) {
    save_step(run.path, step);
    mirror_checkpoint(run.path / "checkpoints" / checkpoint_name(step), step, mirror.path, {2, 0}, {});
  }
  const auto there = list_checkpoints(mirror.path);
  ASSERT_EQ(there.size(), 2u);
  EXPECT_EQ(there[0].step, 20);
  EXPECT_EQ(find_latest_checkpoint(mirror.path, {})->step, 30);
  for (const auto& entry : fs::directory_iterator(run.path / "checkpoints/step-00000030"))
    EXPECT_EQ(read_all(there[1].path / entry.path().filename()), read_all(entry.path()));
}

TEST(Mirrors, TakeNoDamagedFile) {
  test::Folder run, mirror;
  save_step(run.path, 10);
  const fs::path checkpoint = run.path / "checkpoints/step-00000010";
  std::string text = read_all(checkpoint / "optimizer.safetensors");
  text.back() ^= 1;
  write_all(checkpoint / "optimizer.safetensors", text);
  EXPECT_THROW(mirror_checkpoint(checkpoint, 10, mirror.path, {}, {}), Failure);
  EXPECT_TRUE(fs::is_empty(mirror.path / "checkpoints"));
}

TEST(Mirrors, LieOutsideOfTheRun) {
  test::Folder run, mirror;
  EXPECT_THROW(check_mirror(run.path / "copies", run.path), Failure);
  EXPECT_THROW(check_mirror(run.path.parent_path(), run.path), Failure);
  EXPECT_THROW(check_mirror(run.path, run.path), Failure);
  write_all(mirror.path / "file", "in the way");
  EXPECT_THROW(check_mirror(mirror.path / "file", run.path), Failure);
  check_mirror(mirror.path / "new", run.path);
  EXPECT_TRUE(fs::is_empty(mirror.path / "new/checkpoints"));
}

TEST(BestCheckpoint, IsKeptAndRead) {
  test::Folder run;
  EXPECT_FALSE(read_best(run.path));
  for (const std::int64_t step : {1, 2, 3, 4}) save_step(run.path, step, {1, 0, {}, 2});
  ASSERT_EQ(list_checkpoints(run.path).size(), 2u);
  EXPECT_EQ(list_checkpoints(run.path)[0].step, 2);
  const Best best{2, "validation", 0.1};
  settle_best(run.path, best);
  EXPECT_EQ(read_best(run.path), best);
  fs::remove_all(run.path / "checkpoints/step-00000002");
  EXPECT_FALSE(read_best(run.path)) << "its checkpoint is gone";
  write_all(run.path / "checkpoints/best.json", "{\"step\": 4, \"loss\": 1}");
  EXPECT_THROW(read_best(run.path), Failure);
  EXPECT_THROW(best_of_run(run.path, "validation", 4, std::nullopt), Failure);
  EXPECT_EQ(best_of_run(run.path, "validation", 4, Best{4, "validation", 1})->step, 4);
  EXPECT_FALSE(best_of_run(run.path, "none", 4, std::nullopt));
}

}  // namespace
}  // namespace llmc
