// A rank that must stop and hangs in a collective exits by itself; one that is slow, or saves, does not.
#include "comm/stop_limit.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "../facts.h"
#include "processes.h"

namespace llmc::ranks {
namespace {

constexpr auto kPatience = 400ms;

void pause(std::chrono::milliseconds time) { std::this_thread::sleep_for(time); }

TEST(StopLimit, ARankThatIsStuckEndsWithItsSignal) {
  // The ranks' heartbeats continue. Rank 1 got no signal itself but learns of rank 0's.
  std::vector<Process> ranks = start(2, [](int rank, Rendezvous& rendezvous) {
    rendezvous.at(7, Rendezvous::kTraining);
    rendezvous.doing(rank == 0 ? "all-reduce" : "all-gather");
    const StopLimit limit(rendezvous, [&] { return rank == 0 ? SIGTERM : 0; }, kPatience);
    pause(60s);
    return 0;
  });
  const std::vector<End> ends = wait(ranks);
  EXPECT_EQ(ends[0].code, 128 + SIGTERM) << ends[0].err;
  EXPECT_TRUE(test::has_facts(ends[0].err, {"error: this rank", "signal 15", "0.4 s", "step 7", "all-reduce"}));
  EXPECT_EQ(ends[1].code, 170) << ends[1].err;
  EXPECT_TRUE(test::has_facts(ends[1].err, {"rank 0", "exit code 143: ", "signal 15"}));
}

/// Expects that two ranks that do `work` under a limit after a signal run to the end.
void expect_spared(const std::function<void(Rendezvous&, std::atomic<int>& signal)>& work) {
  std::vector<Process> ranks = start(2, [&](int, Rendezvous& rendezvous) {
    std::atomic<int> signal{0};
    {
      const StopLimit limit(rendezvous, [&] { return signal.load(); }, kPatience);
      work(rendezvous, signal);
    }
    rendezvous.leave();
    return 75;
  });
  for (const End& end : wait(ranks)) EXPECT_EQ(end.code, 75) << end.err;
}

TEST(StopLimit, ASaveTakesTheTimeThatItNeeds) {
  expect_spared([](Rendezvous& rendezvous, std::atomic<int>& signal) {
    signal = SIGTERM;
    rendezvous.at(7, "saving");
    rendezvous.doing("all-gather");  // while another rank writes
    pause(3 * kPatience);
  });
}

TEST(StopLimit, AStepThatIsAsSlowAsTheOthersIsAwaited) {
  expect_spared([](Rendezvous& rendezvous, std::atomic<int>& signal) {
    rendezvous.at(7, Rendezvous::kTraining);
    pause(3 * kPatience);
    rendezvous.at(8, Rendezvous::kTraining);
    signal = SIGTERM;
    pause(3 * kPatience);
  });
}

TEST(StopLimit, NobodyIsEndedWithoutASignal) {
  expect_spared([](Rendezvous& rendezvous, std::atomic<int>&) {
    rendezvous.at(7, Rendezvous::kTraining);
    pause(3 * kPatience);
  });
}

}  // namespace
}  // namespace llmc::ranks
