// Ranks as processes: order of sums, races with other accesses to a bucket, mismatched calls, lost ranks.
// tests/unit/comm/conformance.cpp checks the results of every operation.
#include <gmock/gmock.h>
#include <nccl.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "../../unit/comm/processes.h"
#include "comm/collectives.h"
#include "device/math.h"
#include "device_memory.h"
#include "stream.h"

namespace llmc {
namespace {

using ranks::End;
using ranks::Process;
using namespace std::chrono_literals;

constexpr std::size_t kValues = 1000;

/// Data that a test's ranks exchange outside of NCCL.
struct Shared {
  std::atomic<int> ready;
  std::atomic<bool> go;

  static Shared* make() {
    void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return static_cast<Shared*>(memory);
  }
};

struct Rank {
  Rank(int r, int n, const ncclUniqueId& id) : rank(r), size(n) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    if (ncclCommInitRankConfig(&comm, n, id, r, &config) != ncclSuccess) _exit(3);
  }
  ncclResult_t sum(const Memory<float>& values, std::size_t count = kValues) {
    return ncclAllReduce(values, values, count, ncclFloat32, ncclSum, comm, stream.handle);
  }
  std::vector<float> filled(float value) const { return std::vector<float>(kValues, value); }

  int rank, size;
  ncclComm_t comm = nullptr;
  TestStream stream;
};

/// Runs `body` on each rank, which exits with its result. The parent must live as long as they communicate.
std::vector<End> run(int size, const std::function<int(Rank&)>& body) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  std::vector<Process> processes;
  for (int rank = 0; rank < size; ++rank)
    processes.emplace_back([&, rank] {
      Rank mine(rank, size, id);
      return body(mine);
    });
  return ranks::wait(processes);
}

void expect_codes(const std::vector<End>& ends, const std::vector<int>& codes) {
  for (std::size_t rank = 0; rank < ends.size(); ++rank) EXPECT_EQ(ends[rank].code, codes[rank]) << ends[rank].err;
}

TEST(Nccl, WhatOneRankCallsAndTheOthersHaveQueuedIsDone) {
  // Only rank 1's host waits: the devices of the others work by themselves.
  Shared* shared = Shared::make();
  expect_codes(run(3,
                   [&](Rank& of) {
                     const Memory<float> values(of.filled(static_cast<float>(of.rank + 1)));
                     of.sum(values);
                     if (of.rank != 1) {
                       while (!shared->go) std::this_thread::sleep_for(1ms);
                       return 0;
                     }
                     const std::vector<float> sums = values.host();
                     shared->go = true;
                     return sums == of.filled(6) ? 0 : 1;
                   }),
               {0, 0, 0});
}

TEST(Nccl, SumsOfBf16AreRoundedInTheOrderOfRanks) {
  expect_codes(run(3,
                   [](Rank& of) {
                     const float value[] = {256, 1, 1};  // 257 is rounded to 256
                     const Memory<bf16> values(std::vector<bf16>(8, from_float<bf16>(value[of.rank])));
                     ncclAllReduce(values, values, 8, ncclBfloat16, ncclSum, of.comm, of.stream.handle);
                     return to_float(values.host()[7]) == 256 ? 0 : 1;
                   }),
               {0, 0, 0});
}

TEST(Nccl, GraphsCallAgain) {
  expect_codes(run(2,
                   [](Rank& of) {
                     const Memory<float> values(of.filled(1));
                     cudaStreamBeginCapture(of.stream.handle, cudaStreamCaptureModeThreadLocal);
                     of.sum(values);
                     cudaGraph_t graph = nullptr;
                     cudaStreamEndCapture(of.stream.handle, &graph);
                     cudaGraphExec_t exec = nullptr;
                     cudaGraphInstantiate(&exec, graph);
                     for (int turn = 0; turn < 3; ++turn) cudaGraphLaunch(exec, of.stream.handle);
                     return values.host() == of.filled(8) ? 0 : 1;
                   }),
               {0, 0});
}

TEST(Nccl, CallsOnTwoStreamsRunInTheirOrder) {
  // One rank's host waits for the second call first.
  expect_codes(run(2,
                   [](Rank& of) {
                     TestStream second;
                     const Memory<float> a(of.filled(1)), b(std::vector<float>(10, 2));
                     of.sum(a);
                     ncclAllReduce(b, b, 10, ncclFloat32, ncclSum, of.comm, second.handle);
                     if (of.rank == 0) cudaStreamSynchronize(second.handle);
                     return a.host() == of.filled(2) && b.host()[9] == 4 ? 0 : 1;
                   }),
               {0, 0});
}

TEST(Nccl, ABucketReadBeforeItsReductionIsDoneIsARace) {
  const auto body = [](bool waits) {
    return [waits](Rank& of) {
      TestStream reductions;
      Event begun, done;
      const Memory<float> bucket(of.filled(1)), copy(kValues);
      cudaEventRecord(begun.handle, of.stream.handle);
      cudaStreamWaitEvent(reductions.handle, begun.handle);
      ncclAllReduce(bucket, bucket, kValues, ncclFloat32, ncclSum, of.comm, reductions.handle);
      cudaEventRecord(done.handle, reductions.handle);
      if (waits) cudaStreamWaitEvent(of.stream.handle, done.handle);
      cudaMemcpyAsync(copy, bucket, kValues * sizeof(float), cudaMemcpyDeviceToDevice, of.stream.handle);
      return copy.host() == of.filled(2) ? 0 : 1;
    };
  };
  expect_codes(run(2, body(true)), {0, 0});
  const std::vector<End> ends = run(2, body(false));
  expect_codes(ends, {sim::kReported, sim::kReported});
  EXPECT_THAT(ends[0].err, testing::ContainsRegex(
                               "race: (copy on the device .*all-reduce .* wrote|all-reduce .*copy on the device)"));
}

TEST(Nccl, AShareOfABucketIsItsOwn) {
  // A reduce-scatter in place reads the whole bucket and writes one shard.
  const std::vector<End> ends = run(2, [](Rank& of) {
    TestStream other;
    const Memory<float> bucket(of.filled(1));
    cudaDeviceSynchronize();
    float* const share = bucket + static_cast<std::size_t>(of.rank) * (kValues / 2);
    float* const others = bucket + static_cast<std::size_t>(1 - of.rank) * (kValues / 2);
    ncclReduceScatter(bucket, share, kValues / 2, ncclFloat32, ncclSum, of.comm, of.stream.handle);
    cudaStreamSynchronize(of.stream.handle);
    const Memory<float> sums(kValues / 2);
    cudaMemcpyAsync(sums, others, kValues / 2 * sizeof(float), cudaMemcpyDeviceToDevice, other.handle);
    cudaStreamSynchronize(other.handle);
    ncclReduceScatter(bucket, share, kValues / 2, ncclFloat32, ncclSum, of.comm, of.stream.handle);
    cudaMemsetAsync(others, 0, 4, other.handle);
    cudaDeviceSynchronize();
    return 0;
  });
  expect_codes(ends, {sim::kReported, sim::kReported});
  EXPECT_THAT(ends[0].err, testing::ContainsRegex("race: (memset .*reduce-scatter .* read|reduce-scatter .*memset)"));
}

TEST(Nccl, DifferentCallsAreReportedWithBoth) {
  const std::vector<End> ends = run(2, [](Rank& of) {
    const Memory<float> values(of.filled(1));
    of.sum(values, of.rank == 0 ? 10 : 12);
    cudaDeviceSynchronize();
    return 0;
  });
  expect_codes(ends, {sim::kReported, sim::kReported});
  EXPECT_THAT(ends[1].err,
              testing::HasSubstr("ranks of a communicator make different calls: rank 1 ncclAllReduce of 12 "
                                 "float32, rank 0 ncclAllReduce of 10 float32"));
}

TEST(Nccl, NonsenseIsRefused) {
  expect_codes(run(1,
                   [](Rank& of) {
                     const Memory<float> values(of.filled(1));
                     std::vector<float> host(kValues);
                     const auto call = [&](const float* send, float* receive, int root) {
                       return ncclBroadcast(send, receive, 10, ncclFloat32, root, of.comm, of.stream.handle);
                     };
                     if (call(values, values, 1) != ncclInvalidArgument) return 1;
                     if (call(host.data(), host.data(), 0) != ncclInvalidArgument) return 2;
                     if (call(values, values + 5, 0) != ncclInvalidUsage) return 3;  // neither disjoint nor in place
                     if (call(values, values + 10, 0) != ncclSuccess) return 4;
                     ncclUniqueId nowhere = {"/proc/self/fd/999"};
                     ncclComm_t comm = nullptr;
                     ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
                     if (ncclCommInitRankConfig(&comm, 1, nowhere, 0, &config) != ncclInvalidArgument) return 5;
                     return 0;
                   }),
               {0});
}

TEST(Nccl, AbortEndsTheWaitForARankThatDoesNotCome) {
  Shared* shared = Shared::make();
  expect_codes(run(2,
                   [&](Rank& of) {
                     if (of.rank == 1) {
                       while (!shared->go) std::this_thread::sleep_for(1ms);
                       return 0;
                     }
                     const Memory<float> values(of.filled(1));
                     of.sum(values);
                     std::atomic<bool> ended = false;
                     std::thread host([&] {
                       cudaStreamSynchronize(of.stream.handle);
                       ended = true;
                     });
                     std::this_thread::sleep_for(100ms);
                     const bool waited = !ended;
                     ncclCommAbort(of.comm);
                     host.join();
                     shared->go = true;
                     return waited ? 0 : 1;
                   }),
               {0, 0});
}

TEST(Nccl, TheEndOfAProcessIsAnAsynchronousError) {
  Shared* shared = Shared::make();
  expect_codes(run(3,
                   [&](Rank& of) {
                     const auto error = [&] {
                       ncclResult_t result = ncclInternalError;
                       ncclCommGetAsyncError(of.comm, &result);
                       return result;
                     };
                     const bool before = error() == ncclSuccess;
                     ++shared->ready;
                     while (shared->ready < 3) std::this_thread::sleep_for(1ms);
                     if (of.rank == 1) {
                       ncclCommDestroy(of.comm);  // a rank that left regularly is not missed
                       return before ? 0 : 1;
                     }
                     if (of.rank == 2) {
                       while (!shared->go) std::this_thread::sleep_for(1ms);
                       ::raise(SIGKILL);
                     }
                     std::this_thread::sleep_for(100ms);
                     const bool peaceful = error() == ncclSuccess;
                     shared->go = true;
                     const auto until = std::chrono::steady_clock::now() + 30s;
                     while (error() == ncclSuccess && std::chrono::steady_clock::now() < until)
                       std::this_thread::sleep_for(1ms);
                     return before && peaceful && error() == ncclRemoteError ? 0 : 1;
                   }),
               {0, 0, 128 + SIGKILL});
}

TEST(Nccl, ARankThatFailsDoesNotWaitForTheOthers) {
  // For runtime/comm/nccl.cpp: the other ranks may never join work it has queued when an error unwinds it.
  const std::vector<End> ends = ranks::run(2, [](int rank, Rendezvous& rendezvous) {
    ::alarm(30);
    const LauncherInfo launch = ranks::launch_of(rank, 2, 0);
    try {
      Device device(0, 1);
      Communicator communicator(device, launch, rendezvous);
      auto* values = reinterpret_cast<float*>(device.allocate(kValues * sizeof(float)));
      communicator.all_reduce_sum(values, kValues, device.stream());
      device.synchronize();
      rendezvous.barrier();
      if (rank == 0) {
        communicator.all_reduce_sum(values, kValues, device.stream());
        throw Failure(Exit::does_not_fit, "the other makes no second sum");
      }
      rendezvous.barrier();
      return 0;
    } catch (const Failure& failure) {
      rendezvous.farewell(static_cast<int>(failure.code()), failure.what());
      throw;
    }
  });
  expect_codes(ends, {static_cast<int>(Exit::does_not_fit), static_cast<int>(Exit::peer_lost)});
  EXPECT_THAT(ends[1].err, testing::HasSubstr("the other makes no second sum"));
}

/// NCCL settings by runtime/comm/nccl.cpp on two ranks, from the log, and rank 0's description.
std::string asked_of_nccl(const CollectiveNeeds& needs) {
  const std::string log = testing::TempDir() + "asked_of_nccl_" + std::to_string(::getpid());
  const std::vector<End> ends = ranks::run(2, [&](int rank, Rendezvous& rendezvous) {
    if (rank == 0) ::setenv("LLMC_SIM_LOG", log.c_str(), 1);
    Device device(0, 1);
    Communicator communicator(device, ranks::launch_of(rank, 2, 0), rendezvous, needs);
    if (rank == 0) sim::log_line(communicator.description());
    rendezvous.barrier();
    rendezvous.leave();
    return 0;
  });
  expect_codes(ends, {0, 0});
  std::ifstream in(log);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  std::filesystem::remove(log);
  return text;
}

TEST(Nccl, ADeterministicRunExcludesWhatAddsInTheSwitch) {
  const std::string text = asked_of_nccl({.deterministic = true});
  EXPECT_THAT(text, testing::HasSubstr("nccl: NCCL_ALGO ^NVLS,NVLSTree\n"));
  EXPECT_THAT(text, testing::HasSubstr("2 ranks, NCCL 2.28.9, NCCL_ALGO=^NVLS,NVLSTree for deterministic: true\n"));
  EXPECT_THAT(asked_of_nccl({}), testing::HasSubstr("nccl: NCCL_ALGO is not set\n"));
  ::setenv("NCCL_ALGO", "Ring", 1);
  const std::string chosen = asked_of_nccl({.deterministic = true});
  ::unsetenv("NCCL_ALGO");
  EXPECT_THAT(chosen, testing::HasSubstr("nccl: NCCL_ALGO Ring\n"));
  EXPECT_THAT(chosen, testing::HasSubstr("NCCL_ALGO=Ring as the environment has it\n"));
}

TEST(Nccl, ReservedSmsAreTheMostThatCollectivesTake) {
  EXPECT_THAT(asked_of_nccl({.most_sms = 16}), testing::HasSubstr("nccl: maxCTAs 16\n"));
  EXPECT_THAT(asked_of_nccl({}), testing::Not(testing::HasSubstr("maxCTAs")));
}

/// Ranks of runtime/comm/nccl.cpp at step 5 that add twice, once `ready`.
std::vector<End> add_twice(int size, const std::function<void(int rank, Rendezvous&)>& ready) {
  return ranks::run(size, [&](int rank, Rendezvous& rendezvous) {
    ::alarm(30);
    rendezvous.at(5, "training");
    ready(rank, rendezvous);
    Device device(0, 1);
    Communicator communicator(device, ranks::launch_of(rank, size, 0), rendezvous);
    auto* values = reinterpret_cast<float*>(device.allocate(kValues * sizeof(float)));
    for (int turn = 0; turn < 2; ++turn) communicator.all_reduce_sum(values, kValues, device.stream());
    device.synchronize();
    rendezvous.barrier();
    rendezvous.leave();
    return 0;
  });
}

TEST(Nccl, ACollectiveThatFailsIsFoundWhileTheHostWaitsForIt) {
  ::setenv("LLMC_SIM_NCCL_ERROR", "1:2", 1);
  const std::vector<End> ends = add_twice(3, [](int, Rendezvous&) {});
  ::unsetenv("LLMC_SIM_NCCL_ERROR");
  const std::string why =
      "NCCL 2.28.9: a collective has failed: \"remote process exited or there was a network error\", the simulated "
      "network broke";
  const std::string host = " (host " + own_host() + ")";
  for (int rank = 0; rank < 3; ++rank) {
    const End& end = ends[static_cast<std::size_t>(rank)];
    EXPECT_EQ(end.code, static_cast<int>(Exit::peer_lost)) << end.err;
    EXPECT_THAT(end.err, testing::StartsWith(rank == 1 ? "error: " + why
                                                       : "error: rank 1" + host +
                                                             " is lost: it ended with exit code 170: " + why));
    EXPECT_THAT(end.err, testing::HasSubstr("This is rank " + std::to_string(rank) + host +
                                            ", at step 5 in training, which ends with exit code 170\n"));
  }
}

TEST(Nccl, ARankThatNeverComesEndsTheStart) {
  const std::vector<End> ends = add_twice(3, [](int rank, Rendezvous& rendezvous) {
    if (rank == 1) rendezvous.broadcast("", 0);  // NCCL's id
    while (rank == 1) std::this_thread::sleep_for(1s);
  });
  expect_codes(ends, {170, 170, 170});
  EXPECT_THAT(ends[0].err, testing::HasSubstr("the 3 ranks within 1.5 s"));
}

TEST(Nccl, ARankThatIsKilledBeforeItComesIsNamed) {
  const std::vector<End> ends = add_twice(3, [](int rank, Rendezvous& rendezvous) {
    if (rank != 1) return;
    rendezvous.broadcast("", 0);
    std::this_thread::sleep_for(300ms);  // the others wait in ncclCommInitRankConfig
    ::raise(SIGKILL);
  });
  expect_codes(ends, {170, 128 + SIGKILL, 170});
  for (const int rank : {0, 2})
    EXPECT_THAT(ends[static_cast<std::size_t>(rank)].err,
                testing::HasSubstr("rank 1 (host " + own_host() + ") is lost: its process ended"));
}

}  // namespace
}  // namespace llmc
