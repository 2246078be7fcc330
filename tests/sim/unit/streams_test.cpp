// Streams run as late as possible, events order them, graphs repeat the same; and missing orders are reported.
#include <cmath>
#include <cstring>

#include "../../unit/facts.h"
#include "device/device.h"
#include "device_memory.h"
#include "error.h"

namespace llmc {
namespace {

constexpr int kCount = 256;
constexpr std::size_t kBytes = kCount * sizeof(float);

class Streams : public testing::Test {
 protected:
  Streams() {
    void* memory = nullptr;
    cudaHostAlloc(&memory, kBytes, cudaHostAllocDefault);
    pinned = static_cast<float*>(memory);
    std::memset(pinned, 0, kBytes);
  }
  ~Streams() override { cudaFreeHost(pinned); }

  void fill_on(TestStream& stream, float* where, float value) {
    launch(stream, Grid{kCount / 64, 64}, fill, where, kCount, value);
  }
  void add_on(TestStream& stream, const float* left, const float* right, float* sum) {
    launch(stream, Grid{kCount / 64, 64}, add, left, right, sum, kCount);
  }
  void after(TestStream& later, TestStream& earlier, Event& event) {
    ASSERT_EQ(cudaEventRecord(event.handle, earlier.handle), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(later.handle, event.handle), cudaSuccess);
  }
  cudaError_t copy_out(TestStream& stream, const float* from) {
    return cudaMemcpyAsync(pinned, from, kBytes, cudaMemcpyDeviceToHost, stream.handle);
  }
  cudaError_t copy_in(TestStream& stream, float* to) {
    return cudaMemcpyAsync(to, pinned, kBytes, cudaMemcpyHostToDevice, stream.handle);
  }

  TestStream compute, copies;
  Event first, second;
  Memory<float> a{kCount}, b{kCount}, c{kCount};
  float* pinned;
};

TEST_F(Streams, WhatTheHostDoesNotWaitForHasNotHappened) {
  fill_on(compute, a, 3.0f);
  copy_out(compute, a);
  EXPECT_EQ(pinned[0], 0.0f);
  ASSERT_EQ(cudaStreamSynchronize(compute.handle), cudaSuccess);
  EXPECT_EQ(pinned[0], 3.0f);
}

TEST_F(Streams, MemoryBeginsAsNan) {
  for (const float value : a.host()) EXPECT_TRUE(std::isnan(value));
}

TEST_F(Streams, PinnedMemoryIsReadLatePageableAtOnce) {
  std::vector<float> pageable(kCount, 1.0f);
  pinned[0] = 1.0f;
  copy_in(compute, a);
  cudaMemcpyAsync(b, pageable.data(), kBytes, cudaMemcpyHostToDevice, compute.handle);
  pinned[0] = 2.0f;
  pageable[0] = 2.0f;
  EXPECT_EQ(a.host()[0], 2.0f);
  EXPECT_EQ(b.host()[0], 1.0f);
}

TEST_F(Streams, MemoryThatTheHostCannotPinIsNotTheGpus) {
  Device device(0, 0);
  try {
    device.allocate_host(std::size_t{1} << 40);
    FAIL() << "a TiB was pinned";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), Exit::does_not_fit);
    EXPECT_TRUE(test::has_facts(failure.what(), {"the host cannot pin 1099511627776 bytes", "ulimit -l"}));
  }
}

TEST_F(Streams, AnEventWaitBringsTheOtherStreamsData) {
  pinned[0] = 4.0f;
  copy_in(copies, a);
  after(compute, copies, first);
  add_on(compute, a, a, b);
  after(copies, compute, second);  // must not be overwritten before it was read
  copy_in(copies, a);
  EXPECT_EQ(b.host()[0], 8.0f);
}

TEST_F(Streams, AMissingWaitIsARaceBetweenBothByName) {
  pinned[0] = 4.0f;
  EXPECT_REPORT(
      {
        copy_in(copies, a);
        add_on(compute, a, a, b);
        cudaDeviceSynchronize();
      },
      "race: add \\(stream [0-9]+\\) reads bytes \\[0, 4\\) of allocation [0-9]+, which has 1024; copy to the "
      "device \\(stream [0-9]+\\) wrote them, and no event orders the two|race: copy to the device .* writes "
      "bytes \\[0, [0-9]+\\) .*; add .* read them");
}

TEST_F(Streams, AMissingWaitGivesStaleData) {
  fill_on(compute, a, 1.0f);
  ASSERT_EQ(cudaStreamSynchronize(compute.handle), cudaSuccess);
  EXPECT_REPORT(
      {
        fill_on(compute, a, 2.0f);
        copy_out(copies, a);
        cudaStreamSynchronize(copies.handle);
        if (pinned[0] == 1.0f) cudaStreamSynchronize(compute.handle);
      },
      "race: fill .* writes bytes .*; copy to the host .* read them");
}

TEST_F(Streams, TheHostOrdersWhatItHasSeen) {
  fill_on(compute, a, 1.0f);
  ASSERT_EQ(cudaEventRecord(first.handle, compute.handle), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(first.handle), cudaErrorNotReady);
  ASSERT_EQ(cudaEventSynchronize(first.handle), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(first.handle), cudaSuccess);
  copy_out(copies, a);
  ASSERT_EQ(cudaStreamSynchronize(copies.handle), cudaSuccess);
  EXPECT_EQ(pinned[0], 1.0f);
}

TEST_F(Streams, AWriterWaitsForAllReaders) {
  TestStream third;
  cudaMemset(a, 0, kBytes);
  cudaMemset(b, 0, kBytes);
  cudaDeviceSynchronize();
  EXPECT_REPORT(
      {
        copy_out(copies, a);
        add_on(compute, a, b, c);
        cudaStreamSynchronize(copies.handle);
        fill_on(third, a, 1.0f);  // after the copy, by the host; not after the sum
        cudaStreamSynchronize(compute.handle);
        cudaStreamSynchronize(third.handle);
      },
      "race: fill .*; add .* read them");
}

TEST_F(Streams, QueriesEndIfTheyAreAskedOften) {
  fill_on(compute, a, 1.0f);
  fill_on(compute, a, 2.0f);
  EXPECT_EQ(cudaStreamQuery(compute.handle), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamQuery(compute.handle), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamQuery(compute.handle), cudaSuccess);
}

TEST_F(Streams, ElapsedTimeNeedsEventsWithTiming) {
  cudaEvent_t start = nullptr, end = nullptr;
  cudaEventCreate(&start);
  cudaEventCreate(&end);
  cudaEventRecord(start, compute.handle);
  fill_on(compute, a, 1.0f);
  cudaEventRecord(end, compute.handle);
  float milliseconds = -1.0f;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaErrorNotReady);
  cudaEventSynchronize(end);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaSuccess);
  EXPECT_GE(milliseconds, 0.0f);
  cudaEventRecord(first.handle, compute.handle);
  cudaEventSynchronize(first.handle);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, first.handle), cudaErrorInvalidResourceHandle);
  cudaEventDestroy(start);
  cudaEventDestroy(end);
}

TEST_F(Streams, CopiesSayWhichWayTheyGo) {
  EXPECT_EQ(cudaMemcpyAsync(a, pinned, kBytes, cudaMemcpyDeviceToHost, compute.handle), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_STREQ(cudaGetErrorString(cudaErrorInvalidValue), "invalid argument");
}

TEST_F(Streams, MoreMemoryThanThereIsIsRefused) {
  std::size_t before = 0, total = 0, after_it = 0;
  cudaMemGetInfo(&before, &total);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, total + 1), cudaErrorMemoryAllocation);
  ASSERT_EQ(cudaMalloc(&memory, 1 << 20), cudaSuccess);
  cudaMemGetInfo(&after_it, &total);
  EXPECT_EQ(before - after_it, std::size_t{1} << 20);
  cudaFree(memory);
}

/// a = value of pinned, on the copy stream; b = a + a, on the compute stream: as one graph.
class Graphs : public Streams {
 protected:
  cudaGraphExec_t capture(bool fork, bool join) {
    EXPECT_EQ(cudaStreamBeginCapture(compute.handle, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    if (fork) after(copies, compute, first);
    copy_in(fork ? copies : compute, a);
    if (fork && join) after(compute, copies, second);
    add_on(compute, a, a, b);
    cudaGraph_t graph = nullptr;
    result = cudaStreamEndCapture(compute.handle, &graph);
    if (result != cudaSuccess) return nullptr;
    cudaGraphGetNodes(graph, nullptr, &nodes);
    cudaGraphExec_t exec = nullptr;
    EXPECT_EQ(cudaGraphInstantiate(&exec, graph), cudaSuccess);
    cudaGraphDestroy(graph);
    return exec;
  }
  cudaError_t result = cudaSuccess;
  std::size_t nodes = 0;
};

TEST_F(Graphs, RunWhatWasCapturedOnWhatIsThereNow) {
  cudaGraphExec_t exec = capture(true, true);
  ASSERT_NE(exec, nullptr);
  EXPECT_EQ(nodes, 2u);
  for (const float value : {1.0f, 2.0f, 3.0f}) {
    pinned[0] = value;
    ASSERT_EQ(cudaGraphLaunch(exec, compute.handle), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(compute.handle), cudaSuccess);
    EXPECT_EQ(b.host()[0], 2 * value);
  }
  ASSERT_EQ(cudaGraphLaunch(exec, compute.handle), cudaSuccess);  // two consecutive launches are ordered by their
                                                                  // stream
  ASSERT_EQ(cudaGraphLaunch(exec, compute.handle), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(compute.handle), cudaSuccess);
  cudaGraphExecDestroy(exec);
}

TEST_F(Graphs, PrioritiesOfStreamsAreKeptByTheFlagAlone) {
  TestStream urgent(-5);
  cudaStreamBeginCapture(compute.handle, cudaStreamCaptureModeThreadLocal);
  after(urgent, compute, first);
  copy_in(urgent, a);
  after(compute, urgent, second);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(compute.handle, &graph), cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagUseNodePriority), cudaSuccess);
  cudaGraphExecDestroy(exec);
  EXPECT_REPORT(cudaGraphInstantiate(&exec, graph, 0), "instantiated without cudaGraphInstantiateFlagUseNodePriority");
  cudaGraphDestroy(graph);
}

TEST_F(Graphs, NothingRunsDuringACapture) {
  pinned[0] = 5.0f;
  cudaMemset(b, 0, kBytes);
  cudaGraphExec_t exec = capture(false, false);
  EXPECT_EQ(b.host()[0], 0.0f);
  cudaGraphExecDestroy(exec);
}

TEST_F(Graphs, ABranchMustComeBack) {
  capture(true, false);
  EXPECT_EQ(result, cudaErrorStreamCaptureUnjoined);
}

TEST_F(Graphs, BranchesRaceAsStreamsDo) {
  cudaStreamBeginCapture(compute.handle, cudaStreamCaptureModeThreadLocal);
  after(copies, compute, first);
  copy_in(copies, a);
  add_on(compute, a, a, b);  // does not wait for the copy
  after(compute, copies, second);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(compute.handle, &graph), cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  cudaGraphInstantiate(&exec, graph);
  EXPECT_REPORT(
      {
        cudaGraphLaunch(exec, compute.handle);
        cudaStreamSynchronize(compute.handle);
      },
      "race: (copy to the device .*; add .* read them|add .*; copy to the device .* wrote them)");
}

TEST_F(Graphs, AGraphIsOrderedAfterWhatItsStreamWaitsFor) {
  cudaGraphExec_t exec = capture(false, false);
  fill_on(copies, a, 9.0f);
  after(compute, copies, second);
  cudaGraphLaunch(exec, compute.handle);
  EXPECT_EQ(b.host()[0], 0.0f);
  EXPECT_REPORT(
      {
        fill_on(copies, a, 9.0f);
        cudaGraphLaunch(exec, compute.handle);
        cudaDeviceSynchronize();
      },
      "race: ");
}

TEST_F(Graphs, ACapturingStreamCannotBeWaitedFor) {
  cudaStreamBeginCapture(compute.handle, cudaStreamCaptureModeThreadLocal);
  cudaStreamCaptureStatus status;
  cudaStreamIsCapturing(compute.handle, &status);
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  EXPECT_EQ(cudaStreamSynchronize(compute.handle), cudaErrorStreamCaptureUnsupported);
  cudaEventRecord(second.handle, copies.handle);
  EXPECT_EQ(cudaStreamWaitEvent(compute.handle, second.handle), cudaErrorStreamCaptureIsolation);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(copies.handle, &graph), cudaErrorStreamCaptureUnmatched);
  ASSERT_EQ(cudaStreamEndCapture(compute.handle, &graph), cudaSuccess);
  cudaGraphDestroy(graph);
}

}  // namespace
}  // namespace llmc
