// Ranks that write one checkpoint together produce the same files as one rank, or none.
#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <limits>
#include <mutex>
#include <new>
#include <stdexcept>
#include <thread>

#include "../facts.h"
#include "small_state.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;

/// Ranks as threads of one process.
class Meeting {
 public:
  explicit Meeting(int ranks) : texts_(static_cast<std::size_t>(ranks)), left_(ranks) {}

  std::vector<std::string> exchange(int rank, const std::string& text) {
    std::unique_lock lock(mutex_);
    texts_[static_cast<std::size_t>(rank)] = text;
    const int turn = turn_;
    if (--left_ == 0) {
      all_ = texts_;
      left_ = static_cast<int>(texts_.size());
      ++turn_;
      met_.notify_all();
    }
    met_.wait(lock, [&] { return turn_ != turn; });
    return all_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable met_;
  std::vector<std::string> texts_, all_;
  int left_, turn_ = 0;
};

using Breaks = std::function<void()>;

/// Parameters can be read only after being gathered, as with sharded ranks. `breaks` is called when a moment is read,
/// unless it is empty.
class GatheredState final : public StateAccess {
 public:
  GatheredState(StateAccess& whole, Breaks breaks) : whole_(whole), breaks_(std::move(breaks)) {}
  std::span<const SavedBuffer> buffers() const override { return whole_.buffers(); }
  void gather(std::size_t buffer, const ParameterInfo& parameter) override {
    gathered_ = {buffer, parameter.offset, parameter.offset + parameter.rows * parameter.pitch};
    calls += std::to_string(buffer) + " of " + parameter.name + "; ";
  }
  void read(std::size_t buffer, std::int64_t offset, std::int64_t count, std::byte* out) override {
    if (breaks_ && buffer == 2) breaks_();
    if (buffer != gathered_.buffer || offset < gathered_.begin || offset + count > gathered_.end)
      throw std::logic_error("read of what was not gathered last");
    whole_.read(buffer, offset, count, out);
  }
  void write(std::size_t, std::int64_t, std::int64_t, const std::byte*) override {}

  std::string calls;

 private:
  StateAccess& whole_;
  const Breaks breaks_;
  struct {
    std::size_t buffer;
    std::int64_t begin, end;
  } gathered_{};
};

struct Saved {
  std::vector<std::string> errors, calls;
};

/// Saves step 7 with `ranks` ranks; `change` may corrupt one rank's save.
Saved save_together(const fs::path& run, int ranks,
                    const std::function<void(int rank, float* weights, Breaks&)>& change = {}) {
  Meeting meeting(ranks);
  Saved saved{std::vector<std::string>(static_cast<std::size_t>(ranks)),
              std::vector<std::string>(static_cast<std::size_t>(ranks))};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      SmallState state(8);
      Breaks breaks;
      if (change) change(rank, state.buffers[0].data(), breaks);
      GatheredState access(state.access, breaks);
      const auto exchange = [&, rank](const std::string& text) { return meeting.exchange(rank, text); };
      try {
        save_checkpoint(run, small_train_state(7), kTexts, small_parameters(), access,
                        {.retention = {0, 0}, .log = {}, .savers = {{rank, ranks}, exchange}, .shard_bytes = 200});
      } catch (const Failure& failure) {
        saved.errors[static_cast<std::size_t>(rank)] = failure.what();
      }
      saved.calls[static_cast<std::size_t>(rank)] = access.calls;
    });
  for (std::thread& thread : threads) thread.join();
  return saved;
}

TEST(Savers, WriteTheFilesOfOne) {
  test::Folder alone;
  const Saved one = save_together(alone.path, 1);
  EXPECT_EQ(one.errors[0], "");
  const fs::path name = fs::path("checkpoints") / "step-00000007";
  std::size_t files = 0;
  for (int ranks = 2; ranks <= 5; ++ranks) {
    test::Folder run;
    const Saved saved = save_together(run.path, ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(saved.errors[static_cast<std::size_t>(rank)], "");
      EXPECT_EQ(saved.calls[static_cast<std::size_t>(rank)], one.calls[0]) << "all gather alike";
    }
    files = 0;
    for (const auto& entry : fs::directory_iterator(alone.path / name)) {
      EXPECT_EQ(read_all(run.path / name / entry.path().filename()), read_all(entry.path())) << entry.path();
      ++files;
    }
    EXPECT_EQ(std::distance(fs::directory_iterator(run.path / name), {}), static_cast<std::ptrdiff_t>(files));
    EXPECT_TRUE(find_latest_checkpoint(run.path, {}));
  }
  EXPECT_GE(files, 5u + 2 * 5) << "every rank had files of both kinds";
}

/// Expects the same error on all ranks, and no leftovers.
void expect_failed(const test::Facts& error, const std::function<void(int rank, float* weights, Breaks&)>& change) {
  test::Folder run;
  const Saved saved = save_together(run.path, 3, change);
  for (const std::string& said : saved.errors) EXPECT_TRUE(test::has_facts(said, error));
  for (const std::string& said : saved.errors) EXPECT_EQ(said, saved.errors[0]);
  EXPECT_EQ(saved.calls[0], saved.calls[1]);
  EXPECT_TRUE(fs::is_empty(run.path / "checkpoints"));
}

TEST(Savers, AllFailWhereOneDoesAndNothingIsLeft) {
  for (int broken = 0; broken < 3; ++broken) {
    expect_failed("rank " + std::to_string(broken) + ": device lost", [&](int rank, float*, Breaks& breaks) {
      if (rank == broken) breaks = [] { throw std::runtime_error("device lost"); };
    });
    expect_failed({"rank " + std::to_string(broken) + ": ", "host", "no memory"},
                  [&](int rank, float*, Breaks& breaks) {
                    if (rank == broken) breaks = [] { throw std::bad_alloc(); };
                  });
  }
}

TEST(Savers, WeightsThatAreNotFiniteAreNotSaved) {
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    test::Folder run;
    const Saved saved =
        save_together(run.path, 1, [&](int, float* weights, Breaks&) { weights[192 + 8 * 7 + 5] = value; });
    EXPECT_TRUE(test::has_facts(saved.errors[0], {"'model.layers.0.self_attn.q_proj.weight'", "not finite"}));
    EXPECT_TRUE(fs::is_empty(run.path / "checkpoints"));
  }
}

}  // namespace
}  // namespace llmc
