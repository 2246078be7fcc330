// Collectives replayed from a recording are numbered like those that are called.
#include "step/numbered_replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace llmc {

// A target whose Replay calls the work twice, like cuda's, and if `profiled` every time.
struct Device::Impl {};
Device::Device(int, int) : impl_(new Impl) {}
Device::~Device() = default;

namespace {

bool profiled = false;

}  // namespace

struct Replay::Impl {
  int calls = 0;
};
Replay::Replay(Device&) : impl_(new Impl) {}
Replay::~Replay() = default;
void Replay::run(const std::function<void()>& work, bool) {
  if (impl_->calls >= 2 && !profiled) return;
  work();
  ++impl_->calls;
}

namespace {

constexpr Collective sum_of(std::size_t count) { return {CollectiveKind::all_reduce, CollectiveType::fp32, count}; }

struct NumberedReplays : testing::Test {
  NumberedReplays() { profiled = false; }

  Device device{0, 0};
  CollectiveLog log;
  NumberedReplay replay{device, &log};
  std::size_t first = 10;
  int calls = 0;
  const std::function<void()> work = [this] {
    ++calls;
    log.add(sum_of(first));
    log.add(sum_of(first + 1));
  };
};

TEST_F(NumberedReplays, NumbersEachRunOnce) {
  for (std::uint64_t run = 1; run <= 4; ++run) {
    replay.run(work);
    EXPECT_EQ(log.report().count, 2 * run);
  }
  EXPECT_EQ(calls, 2);
  const std::vector<Collective> newest = log.report().newest;
  for (std::size_t i = 0; i < newest.size(); ++i) EXPECT_EQ(newest[i], sum_of(10 + i % 2)) << i;
}

TEST_F(NumberedReplays, RepeatsWhatWasCalledLast) {
  replay.run(work);
  first = 20;
  replay.run(work);
  replay.run(work);
  EXPECT_THAT(log.report().newest,
              testing::ElementsAre(sum_of(10), sum_of(11), sum_of(20), sum_of(21), sum_of(20), sum_of(21)));
}

TEST_F(NumberedReplays, CallsUnderAProfiler) {
  for (int run = 0; run < 3; ++run) replay.run(work);
  profiled = true;
  replay.run(work);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(log.report().count, 8u);
}

TEST_F(NumberedReplays, KeepsWhatOthersCallOutOfItsRuns) {
  NumberedReplay other{device, &log};
  replay.run(work);
  replay.run(work);
  log.add(sum_of(99));
  other.run([&] { log.add(sum_of(50)); });
  replay.run(work);
  EXPECT_THAT(log.report().newest, testing::ElementsAre(sum_of(10), sum_of(11), sum_of(10), sum_of(11), sum_of(99),
                                                        sum_of(50), sum_of(10), sum_of(11)));
}

TEST_F(NumberedReplays, AnErrorOfTheWorkPasses) {
  EXPECT_THROW(replay.run([] { throw std::runtime_error("no link"); }), std::runtime_error);
  log.add(sum_of(99));  // must not enter a recording that is gone
  replay.run(work);
  replay.run(work);
  replay.run(work);
  EXPECT_EQ(log.report().count, 7u);
}

TEST_F(NumberedReplays, OneRankHasNone) {
  NumberedReplay alone{device, nullptr};
  for (int run = 0; run < 3; ++run) alone.run([this] { ++calls; });
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(log.report().count, 0u);
}

}  // namespace
}  // namespace llmc
