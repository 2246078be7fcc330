// Rendezvous between processes: the messages exchanged, and the effect of a lost rank on the others.
#include "comm/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <thread>

#include "../facts.h"
#include "comm/collective_judge.h"
#include "comm/collective_log.h"
#include "processes.h"

namespace llmc::ranks {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

void sleep(std::chrono::milliseconds time) { std::this_thread::sleep_for(time); }

/// Returns only when a peer is lost.
[[noreturn]] void wait_for_the_others() {
  while (true) sleep(1000ms);
}

std::string text_of(int rank, std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 7 + static_cast<std::size_t>(rank));
  return text;
}

int check(bool right, const char* what) {
  if (!right) std::fprintf(stderr, "wrong: %s\n", what);
  return right ? 0 : 1;
}

void expect_done(const std::vector<End>& ends) {
  for (std::size_t rank = 0; rank < ends.size(); ++rank)
    EXPECT_EQ(ends[rank].code, 0) << rank << ": " << ends[rank].err;
}

TEST(Rendezvous, OneRankNeedsNothing) {
  Rendezvous alone({}, {});
  alone.agree({{"program", "x"}});
  EXPECT_EQ(alone.all_gather("a"), std::vector<std::string>{"a"});
  EXPECT_EQ(alone.broadcast("b", 0), "b");
  alone.barrier();
  alone.at(1, "forward");
  alone.farewell(1, "why");
  alone.leave();
}

class Sizes : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Sizes, testing::Values(2, 3, 5));

TEST_P(Sizes, TextsAreGatheredInOrder) {
  const int ranks = GetParam();
  expect_done(run(ranks, [&](int rank, Rendezvous& rendezvous) {
    int wrong = 0;
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{3000000}}) {
      const std::vector<std::string> all = rendezvous.all_gather(text_of(rank, size * static_cast<std::size_t>(rank)));
      for (int r = 0; r < ranks; ++r)
        wrong += check(all.at(static_cast<std::size_t>(r)) == text_of(r, size * static_cast<std::size_t>(r)), "text");
    }
    for (int root = 0; root < ranks; ++root)
      wrong += check(rendezvous.broadcast(text_of(rank, 9), root) == text_of(root, 9), "broadcast");
    for (int i = 0; i < 100; ++i) rendezvous.barrier();
    rendezvous.agree({{"program", "same"}, {"world", std::to_string(ranks)}});
    rendezvous.leave();
    return wrong;
  }));
}

TEST_P(Sizes, ARankThatWorksForLongIsNotLost) {
  expect_done(run(GetParam(), [](int rank, Rendezvous& rendezvous) {
    if (rank == 1) sleep(kLimits.silence + 300ms);
    rendezvous.barrier();
    rendezvous.leave();
    sleep(100ms * rank);  // the order of leaving does not matter
    return 0;
  }));
}

TEST(Rendezvous, AMachineThatStandsStillLosesNobody) {
  std::array<int, 2> met{};
  ASSERT_EQ(pipe(met.data()), 0);
  std::vector<Process> processes = start(3, [&](int, Rendezvous& rendezvous) {
    rendezvous.barrier();
    if (write(met[1], "x", 1) != 1) return 1;
    sleep(kLimits.silence);
    rendezvous.barrier();
    rendezvous.leave();
    return 0;
  });
  for (std::size_t i = 0; i < processes.size(); ++i) {
    char one = 0;
    ASSERT_EQ(read(met[0], &one, 1), 1);
  }
  for (const Process& process : processes) process.signal(SIGSTOP);
  sleep(kLimits.silence + 300ms);
  for (const Process& process : processes) {  // rank 0 looks for the others' beats before these can come
    process.signal(SIGCONT);
    sleep(2 * kLimits.beat);
  }
  expect_done(wait(processes));
}

TEST(Rendezvous, TextsThatAreTooLongAreRefused) {
  const std::string text(Rendezvous::kMaxText + 1, 'x');
  Rendezvous alone({}, {});
  EXPECT_THROW(alone.all_gather(text), Failure);
}

TEST(Rendezvous, DifferencesNameRanksHostsAndValues) {
  const auto ends = run(4, [](int rank, Rendezvous& rendezvous) {
    std::vector<std::pair<std::string, std::string>> facts = {{"NCCL", "2.28"}, {"program", rank == 2 ? "b2" : "a1"}};
    if (rank == 3) facts.push_back({"data", "d"});
    try {
      rendezvous.agree(facts);
    } catch (const Failure&) {
      rendezvous.barrier();  // the ranks may still save together
      rendezvous.leave();
      throw;
    }
    return 0;
  });
  const std::string host = own_host();
  for (const End& end : ends) {
    EXPECT_EQ(end.code, 2);
    EXPECT_THAT(end.err, HasSubstr("program is a1 on ranks 0-1, 3 (host " + host + ") and b2 on rank 2 (host " + host +
                                   "); data is nothing on ranks 0-2 (host " + host + ") and d on rank 3"));
    EXPECT_EQ(end.err.find("NCCL"), std::string::npos) << end.err;
  }
}

TEST(Rendezvous, WhoIsAloneWithAValueIsNamed) {
  const auto ends = run(5, [](int rank, Rendezvous& rendezvous) {
    const std::string host = " (host " + own_host() + ")";
    const auto alone = [&](const char* values) {  // one letter per rank
      return rendezvous.compare({{"weights", std::string(1, values[rank])}, {"moments", "same"}});
    };
    int wrong = check(alone("aaaaa").text.empty() && alone("aaaaa").alone.empty(), "equal");
    const auto one = alone("aabaa");
    wrong += check(one.text == "weights is a on ranks 0-1, 3-4" + host + " and b on rank 2" + host, "text");
    wrong += check(one.alone == std::vector<int>{2}, "one of five");
    wrong += check(alone("baaca").alone == std::vector<int>{0, 3}, "two of five");
    wrong += check(alone("aabbc").alone.empty() && !alone("aabbc").text.empty(), "no majority");
    wrong += check(rendezvous.names({0, 1, 3}) == "ranks 0-1, 3" + host, "names");
    rendezvous.leave();
    return wrong;
  });
  expect_done(ends);
}

/// Expects that all ranks but the lost one exit with 170 and one line that has these facts.
void expect_lost(const std::vector<End>& ends, int lost, const test::Facts& how) {
  for (int rank = 0; rank < static_cast<int>(ends.size()); ++rank) {
    if (rank == lost) continue;
    const End& end = ends[static_cast<std::size_t>(rank)];
    EXPECT_EQ(end.code, 170) << rank << ": " << end.err;
    const std::string begin = "error: rank " + std::to_string(lost) + " (host " + own_host() + ") is lost: ";
    EXPECT_THAT(end.err, StartsWith(begin));
    EXPECT_TRUE(test::has_facts(end.err.substr(std::min(begin.size(), end.err.size())), how));
    EXPECT_THAT(end.err, HasSubstr("It was last at step 7 in forward"));
    EXPECT_TRUE(test::has_facts(end.err, {"rank " + std::to_string(rank) + " (host " + own_host() + "), ", "step 8",
                                          "all-reduce", "exit code 170\n"}));
    EXPECT_EQ(std::count(end.err.begin(), end.err.end(), '\n'), 1) << end.err;
  }
}

/// Starts ranks of which `lost` runs `act` at step 7, when the others know that and are at step 8.
std::vector<End> lose(int world_size, int lost, const std::function<int(Rendezvous&)>& act) {
  std::vector<Process> processes = start(world_size, [&](int rank, Rendezvous& rendezvous) {
    rendezvous.at(rank == lost ? 7 : 8, rank == lost ? "forward" : "all-reduce");
    sleep(3 * kLimits.beat);
    rendezvous.barrier();
    if (rank == lost) return act(rendezvous);
    if (rank % 2) rendezvous.barrier();
    wait_for_the_others();
  });
  std::vector<End> ends(processes.size());
  for (std::size_t rank = 0; rank < ends.size(); ++rank)
    if (static_cast<int>(rank) != lost) ends[rank] = processes[rank].wait();
  processes[static_cast<std::size_t>(lost)].signal(SIGCONT);  // a rank that was stopped by a signal counts itself as
                                                              // lost too
  ends[static_cast<std::size_t>(lost)] = processes[static_cast<std::size_t>(lost)].wait();
  return ends;
}

struct Case {
  int world_size, lost;
};
class LostRank : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Ranks, LostRank, testing::Values(Case{2, 0}, Case{2, 1}, Case{4, 0}, Case{4, 2}),
                         [](const auto& info) {
                           return std::to_string(info.param.lost) + "Of" + std::to_string(info.param.world_size);
                         });

TEST_P(LostRank, Killed) {
  const auto [world_size, lost] = GetParam();
  expect_lost(lose(world_size, lost, [](Rendezvous&) -> int { return ::kill(getpid(), SIGKILL); }), lost,
              {"process ended", "without a message"});
}

TEST_P(LostRank, Stopped) {
  const auto [world_size, lost] = GetParam();
  const auto begin = std::chrono::steady_clock::now();
  expect_lost(lose(world_size, lost, [](Rendezvous&) -> int { return ::kill(getpid(), SIGSTOP); }), lost,
              "nothing for 1 s");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20 * kLimits.silence);  // a busy machine's beats count for less
}

TEST_P(LostRank, EndedByItsDestructor) {
  const auto [world_size, lost] = GetParam();
  expect_lost(lose(world_size, lost, [](Rendezvous&) -> int { throw Failure(Exit::data, "no word of it"); }), lost,
              {"process ended", "without a message"});
}

TEST_P(LostRank, SaidFarewell) {
  const auto [world_size, lost] = GetParam();
  const auto ends = lose(world_size, lost, [](Rendezvous& rendezvous) {
    rendezvous.farewell(7, "the loss is\nnot a number");
    return 7;
  });
  expect_lost(ends, lost, {"exit code 7: ", "the loss", "not a number. "});
  EXPECT_EQ(ends[static_cast<std::size_t>(lost)].code, 7);
}

TEST_P(LostRank, EndedByAThreadOfItsOwn) {
  const auto [world_size, lost] = GetParam();
  const auto ends = lose(world_size, lost, [](Rendezvous& rendezvous) -> int {
    std::thread([&] { rendezvous.end("the library says that\nall is lost"); }).detach();
    wait_for_the_others();
  });
  expect_lost(ends, lost, "exit code 170: the library says that all is lost. ");
  const End& end = ends[static_cast<std::size_t>(lost)];
  EXPECT_EQ(end.code, 170);
  EXPECT_TRUE(test::has_facts(end.err, {"error: the library says that all is lost. ",
                                        "rank " + std::to_string(lost) + " (host " + own_host() + "), ", "step 7",
                                        "forward", "exit code 170\n"}));
}

TEST(Rendezvous, ACollectiveIsNamedWhileARankIsInIt) {
  const auto ends = run(2, [](int rank, Rendezvous& rendezvous) -> int {
    rendezvous.at(3, "training");
    const char* const before = rendezvous.doing("all-gather");
    if (rank == 1) sleep(3 * kLimits.beat);
    rendezvous.barrier();
    if (rank == 0) rendezvous.doing(before);
    rendezvous.barrier();
    if (rank == 1) ::kill(getpid(), SIGKILL);
    wait_for_the_others();
  });
  EXPECT_THAT(ends[0].err, HasSubstr("It was last at step 3 in all-gather. This is rank 0"));
  EXPECT_THAT(ends[0].err, HasSubstr("at step 3 in training, which ends"));
}

TEST(Rendezvous, AStartThatTakesTooLongEndsTheProcess) {
  const auto ends = run(2, [](int, Rendezvous& rendezvous) -> int {
    const TimeLimit limit = rendezvous.start_limit("the library");
    wait_for_the_others();
  });
  for (const End& end : ends) {
    EXPECT_EQ(end.code, 170);
    EXPECT_THAT(end.err, HasSubstr("the 2 ranks within 1.5 s"));
  }
}

TEST(Rendezvous, ARankThatEndsForAnotherDoesNotHideIt) {
  // Rank 1's library detects that rank 2 is gone before the heartbeats do.
  for (const int hurried : {0, 1}) {
    const auto ends = run(3, [&](int rank, Rendezvous& rendezvous) -> int {
      rendezvous.at(rank == 2 ? 7 : 8, rank == 2 ? "forward" : "all-reduce");
      sleep(3 * kLimits.beat);
      rendezvous.barrier();
      if (rank == 2) {
        sleep(30ms);
        ::kill(getpid(), SIGKILL);
      }
      if (rank == hurried) {
        rendezvous.farewell(170, "the library says so");
        return 170;
      }
      wait_for_the_others();
    });
    expect_lost(ends, 2, {"process ended", "without a message"});
  }
}

TEST(Rendezvous, RanksThatFailTogetherSayTheirOwn) {
  const auto ends = run(4, [](int rank, Rendezvous& rendezvous) {
    rendezvous.barrier();
    sleep(10ms * rank);
    rendezvous.farewell(7, "all see it");
    return 7;
  });
  for (const End& end : ends) EXPECT_EQ(end.code, 7) << end.err;
}

TEST(Rendezvous, RanksThatDoNotComeAreNamed) {
  const int port = free_port();
  std::vector<Process> processes;
  for (const int rank : {0, 2, 5})
    processes.emplace_back([&, rank] {
      Rendezvous rendezvous(launch_of(rank, 6, port), {400ms, 50ms, 1500ms});
      return 0;
    });
  for (const End& end : wait(processes)) {
    EXPECT_EQ(end.code, 170);
    EXPECT_TRUE(test::has_facts(end.err, {"ranks 1, 3-4 of 6", "not connect", "rank 0 on " + own_host()}));
  }
}

TEST(Rendezvous, ARank0ThatDoesNotComeIsSaid) {
  Process process([port = free_port()] {
    Rendezvous rendezvous(launch_of(1, 2, port), {300ms, 50ms, 1500ms});
    return 0;
  });
  const End end = process.wait();
  EXPECT_EQ(end.code, 170);
  EXPECT_TRUE(test::has_facts(end.err, {"rank 1 on " + own_host(), "rank 0 at 127.0.0.1:", "Connection refused"}));
}

TEST(Rendezvous, ARankThatEndsBeforeAllHaveComeEndsTheStart) {
  const int port = free_port();
  std::vector<Process> processes;
  for (const int rank : {0, 1})
    processes.emplace_back([&, rank] {
      Rendezvous rendezvous(launch_of(rank, 4, port), {60000ms, 50ms, 1500ms});
      return 0;
    });
  Process leaver([&] {
    Rendezvous rendezvous(launch_of(2, 4, port), {60000ms, 50ms, 1500ms});
    return 0;
  });
  sleep(300ms);
  leaver.signal(SIGKILL);
  for (const End& end : wait(processes)) {
    EXPECT_EQ(end.code, 170);
    EXPECT_THAT(end.err, HasSubstr("rank 2 on " + own_host() + " ended before all 4 ranks"));
  }
}

TEST(Rendezvous, ASignalIsTheMainThreads) {
  static volatile sig_atomic_t in_main = 0;
  static pthread_t main_thread;
  expect_done(run(2, [](int, Rendezvous& rendezvous) {
    main_thread = pthread_self();
    std::signal(SIGUSR1, [](int) { in_main = in_main + (pthread_equal(pthread_self(), main_thread) ? 1 : 100); });
    sigset_t usr1, before;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &usr1, &before);
    ::kill(getpid(), SIGUSR1);  // blocked everywhere: only a thread of the rendezvous could receive it
    sleep(30ms);
    int wrong = check(in_main == 0, "the signal came to a thread");
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    wrong += check(in_main == 1, "the signal did not come to the main thread");
    rendezvous.leave();
    return wrong;
  }));
}

/// Expects ranks at step 3 in "training" that exit with 170 and these facts; only rank 0 prints the table.
void expect_apart(const std::vector<End>& ends, const test::Facts& what, const std::vector<std::string>& rows) {
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    EXPECT_EQ(ends[rank].code, 170) << rank << ": " << ends[rank].err;
    EXPECT_TRUE(test::has_facts(ends[rank].err, what)) << rank;
  }
  for (const std::string& row : rows) EXPECT_THAT(ends[0].err, HasSubstr(row));
  EXPECT_TRUE(test::has_facts(ends[1].err, {"exit code 170", "Rank 0"}));
}

constexpr Collective kSum{CollectiveKind::all_reduce, CollectiveType::fp32, 96};
constexpr Collective kGather{CollectiveKind::all_gather, CollectiveType::bytes, 64};

/// Runs ranks that call the collectives in `calls` and wait in the last one.
std::vector<End> collectives_of(int world_size, const std::function<std::vector<Collective>(int)>& calls,
                                std::chrono::milliseconds limit) {
  Rendezvous::Limits limits = kLimits;
  limits.silence = 20s;
  limits.collective = limit;
  std::vector<Process> processes = start(
      world_size,
      [&](int rank, Rendezvous& rendezvous) {
        rendezvous.at(3, "training");
        for (const Collective& collective : calls(rank)) rendezvous.collectives()->add(collective);
        const WaitForRanks waits(rendezvous.collectives());
        wait_for_the_others();
        return 0;
      },
      limits);
  return wait(processes);
}

TEST(Collectives, ARankThatSkipsOneEndsAll) {
  const auto calls = [](int rank) { return rank == 2 ? std::vector{kSum, kGather} : std::vector{kSum, kSum, kGather}; };
  expect_apart(collectives_of(3, calls, 1h),
               {"number 2", "all-reduce of 96 fp32", "rank 0", "all-gather of 64 bytes", "rank 2"},
               {"ranks 0-1                3  training                  number 3, all-gather of 64 bytes, waits",
                "rank 2                   3  training                  number 2, all-gather of 64 bytes, waits"});
}

TEST(Collectives, AnotherSizeEndsAll) {
  const auto calls = [](int rank) {
    return std::vector{kGather, rank == 1 ? Collective{CollectiveKind::all_reduce, CollectiveType::fp32, 95} : kSum};
  };
  expect_apart(collectives_of(2, calls, 1h),
               "number 2 is all-reduce of 96 fp32 on rank 0 and all-reduce of 95 fp32 on rank 1",
               {"rank 0                   3", "rank 1                   3"});
}

TEST(Collectives, OneThatLastsTooLongEndsAll) {
  expect_apart(collectives_of(
                   2, [](int) { return std::vector{kSum}; }, 300ms),
               "longer than 0.3 s",
               {"ranks 0-1                3  training                  number 1, all-reduce of 96 fp32, waits"});
}

/// Judges the heartbeats of a rank that waits for `ms` in one collective.
bool lasts_too_long(std::chrono::milliseconds ms, std::chrono::milliseconds limit, std::int64_t steps,
                    std::chrono::milliseconds of_step, bool waits = true, Collective last = kSum) {
  CollectiveJudge judge(2, limit);
  MonotonicTime now;
  const auto beats = [&](std::chrono::milliseconds time, std::uint64_t turns, std::int64_t first) {
    for (std::chrono::milliseconds at{0}; at < time; at += 100ms, now += 100ms) {
      const std::int64_t step = first < 0 ? first : first + at / of_step;
      for (const int rank : {0, 1}) judge.hear(rank, {step, "training", {2, {kSum, last}, turns}});
      if (judge.judge(now, 100ms)) return true;
    }
    return false;
  };
  if (steps > 0 && beats(steps * of_step, 2, 0)) return true;
  return beats(ms, waits ? 3 : 2, steps > 0 ? steps : -1);
}

TEST(Collectives, AHundredStepsMayBeLongerThanTheLimit) {
  EXPECT_TRUE(lasts_too_long(12s, 10s, 0, 1h));
  EXPECT_FALSE(lasts_too_long(9s, 10s, 0, 1h));
  EXPECT_FALSE(lasts_too_long(99s, 10s, 0, 1h, false)) << "who computes for long is not lost";
  EXPECT_FALSE(lasts_too_long(60s, 10s, 20, 1s)) << "100 steps are 100 s";
}

TEST(Collectives, AnUnlimitedWaitMayLastForEver) {
  EXPECT_TRUE(lasts_too_long(99s, 10s, 0, 1h, true, {CollectiveKind::text, CollectiveType::none, 0}));
  EXPECT_FALSE(lasts_too_long(99s, 10s, 0, 1h, true, {CollectiveKind::text_after_work, CollectiveType::none, 0}));
}

TEST(Collectives, TimeInWhichTheJudgeIsStoppedIsNone) {
  CollectiveJudge judge(2, 10s);
  for (const int rank : {0, 1}) judge.hear(rank, {1, "training", {1, {kSum}, 1}});
  for (const std::chrono::seconds now : {0s, 3600s, 7200s}) EXPECT_FALSE(judge.judge(MonotonicTime(now), 1s));
}

TEST(Collectives, TheLogTellsTheNewest) {
  CollectiveLog log;
  for (std::size_t i = 1; i <= 200; ++i) log.add({CollectiveKind::broadcast, CollectiveType::bytes, i});
  const CollectiveReport report = log.report();
  EXPECT_EQ(report.count, 200);
  ASSERT_EQ(report.newest.size(), CollectiveLog::kTold);
  EXPECT_EQ(report.newest.back().text(), "broadcast of 200 bytes");
  EXPECT_EQ(report.newest.front().text(), "broadcast of 193 bytes");
}

}  // namespace
}  // namespace llmc::ranks
