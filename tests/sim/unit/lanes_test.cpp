// Lanes, barriers, shuffles, shared memory and clusters; and reports on kernels that misuse them.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "device_memory.h"
#include "error.h"

namespace llmc {
namespace {

std::vector<int> counting(int count) {
  std::vector<int> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

TEST(Lanes, EachHasItsPlaceInTheGrid) {
  TestStream stream;
  Memory<int> out(3 * 64);
  launch(stream, Grid{3, 64}, indices, static_cast<int*>(out));
  const std::vector<int> got = out.host();
  for (int i = 0; i < 192; ++i) EXPECT_EQ(got[static_cast<std::size_t>(i)], i / 64 * 1000 + i % 64);
}

TEST(Lanes, ShufflesMoveValuesAsOnAGpu) {
  TestStream stream;
  Memory<float> out(5 * 32);
  launch(stream, Grid{1, 32}, shuffles, static_cast<float*>(out));
  const std::vector<float> got = out.host();
  for (std::size_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(got[lane], static_cast<float>(lane ^ 1));
    EXPECT_EQ(got[32 + lane], static_cast<float>(lane < 2 ? lane : lane - 2));
    EXPECT_EQ(got[64 + lane], static_cast<float>(lane % 16 < 13 ? lane + 3 : lane));
    EXPECT_EQ(got[96 + lane], 5.0f);
    EXPECT_EQ(got[128 + lane], 248.0f);
  }
}

TEST(Lanes, VotesHaveABitForEachLane) {
  TestStream stream;
  Memory<unsigned> out(3);
  launch(stream, Grid{1, 32}, votes, static_cast<unsigned*>(out));
  EXPECT_EQ(out.host(), (std::vector<unsigned>{0x49249249u, 1u, 0u}));
}

TEST(Lanes, ABarrierOrdersABlock) {
  TestStream stream;
  Memory<int> in(counting(128)), out(128);
  launch(stream, Grid{1, 128}, reverse, static_cast<int*>(in), static_cast<int*>(out));
  const std::vector<int> got = out.host();
  for (int i = 0; i < 128; ++i) EXPECT_EQ(got[static_cast<std::size_t>(i)], 127 - i);
}

TEST(Lanes, AMissingBarrierIsARace) {
  TestStream stream;
  Memory<int> in(counting(128)), out(128);
  EXPECT_REPORT(
      {
        launch(stream, Grid{1, 128}, reverse_without_barrier, static_cast<int*>(in), static_cast<int*>(out));
        cudaStreamSynchronize(stream.handle);
      },
      "race in kernel reverse_without_barrier .*lane [0-9]+ of block 0 writes bytes \\[[0-9]+, [0-9]+\\) of "
      "shared memory; lane [0-9]+ of block 0 read them, and no barrier");
}

TEST(Lanes, NamedBarriersAreOfTheirOwnLanes) {
  TestStream stream;
  Memory<int> out(128);
  launch(stream, Grid{1, 128}, groups, static_cast<int*>(out));
  const std::vector<int> got = out.host();
  for (int i = 0; i < 128; ++i) EXPECT_EQ(got[static_cast<std::size_t>(i)], (i ^ 63) + (i < 64 ? 0 : 1));
}

TEST(Lanes, ANamedBarrierOrdersNobodyElse) {
  TestStream stream;
  Memory<int> out(128);
  EXPECT_REPORT(
      {
        launch(stream, Grid{1, 128}, one_group_only, static_cast<int*>(out));
        cudaStreamSynchronize(stream.handle);
      },
      "race in kernel one_group_only");
}

TEST(Lanes, TwoBarriersThatWaitForEachOtherAreADeadlock) {
  TestStream stream;
  Memory<int> out(128);
  EXPECT_REPORT(
      {
        launch(stream, Grid{1, 128}, halves_meet_elsewhere, static_cast<int*>(out));
        cudaStreamSynchronize(stream.handle);
      },
      "deadlock in kernel halves_meet_elsewhere; 64 lanes of block 0 wait at __syncthreads; 64 lanes of block 0 "
      "wait at barrier 1 for 128");
}

TEST(Lanes, AWarpOrdersItselfBySyncwarpOnly) {
  TestStream stream;
  Memory<int> in(counting(64)), out(64);
  launch(stream, Grid{1, 64}, warp_exchange, static_cast<int*>(in), static_cast<int*>(out));
  const std::vector<int> got = out.host();
  for (int i = 0; i < 64; ++i) EXPECT_EQ(got[static_cast<std::size_t>(i)], i ^ 31);
  EXPECT_REPORT(
      {
        launch(stream, Grid{1, 64}, shuffle_is_no_barrier, static_cast<int*>(in), static_cast<int*>(out));
        cudaStreamSynchronize(stream.handle);
      },
      "race in kernel shuffle_is_no_barrier");
}

TEST(Lanes, AShuffleWithALaneThatLeftIsADeadlock) {
  TestStream stream;
  Memory<float> out(32);
  EXPECT_REPORT(
      {
        launch(stream, Grid{1, 32}, reads_lane_that_left, static_cast<float*>(out));
        cudaStreamSynchronize(stream.handle);
      },
      "deadlock in kernel reads_lane_that_left; 31 lanes of block 0 wait at a shuffle");
}

TEST(Lanes, AsynchronousCopiesArriveWhenTheirLaneWaits) {
  TestStream stream;
  std::vector<float> numbers(128);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i + 1);
  Memory<float> in(numbers), out(128);
  launch(stream, Grid{1, 128}, turned_copies, static_cast<const float*>(in), static_cast<float*>(out));
  const std::vector<float> got = out.host();
  for (std::size_t i = 0; i < 128; ++i) EXPECT_EQ(got[i], i % 2 == 0 ? 0.0f : numbers[127 - i]);
  const auto run = [&](void (*kernel)(const float*, float*)) {
    launch(stream, Grid{1, 128}, kernel, static_cast<const float*>(in), static_cast<float*>(out));
    cudaStreamSynchronize(stream.handle);
  };
  EXPECT_REPORT(run(copies_not_waited_for),
                "lane 0 of block 0 reads bytes .* of shared memory before an asynchronous copy to them was waited for");
  EXPECT_REPORT(run(copies_without_barrier), "race in kernel copies_without_barrier|before an asynchronous copy");
  EXPECT_REPORT(
      {
        launch(stream, Grid{1, 128}, copies_left_behind, static_cast<const float*>(in));
        cudaStreamSynchronize(stream.handle);
      },
      "lane 0 ends without waiting for an asynchronous copy");
}

TEST(Lanes, SharedMemoryBeginsAsNan) {
  TestStream stream;
  Memory<float> out(2);
  launch(stream, Grid{2, 32}, fresh, static_cast<float*>(out));
  for (const float value : out.host()) EXPECT_TRUE(std::isnan(value));
}

TEST(Lanes, ALaunchAsksForMoreMemory) {
  TestStream stream;
  for (const int count : {100, 48 << 10, 100'000}) {
    Memory<unsigned char> out(static_cast<std::size_t>(count));
    const auto bytes = static_cast<unsigned>(count);
    launch(stream, Grid{1, 64, 1, bytes}, turned_bytes, static_cast<unsigned char*>(out), count);
    const std::vector<unsigned char> got = out.host();
    for (int i = 0; i < count; ++i) ASSERT_EQ(got[static_cast<std::size_t>(i)], (count - 1 - i) % 256);
    EXPECT_REPORT(
        {
          launch(stream, Grid{1, 64, 1, bytes - 1}, turned_bytes, static_cast<unsigned char*>(out), count);
          cudaStreamSynchronize(stream.handle);
        },
        "turned_bytes.* writes shared memory past the bytes that its launch asks for");
  }
  EXPECT_REPORT(
      {
        launch(stream, Grid{1, 32, 1, 24}, stores_over_the_end, 24);
        cudaStreamSynchronize(stream.handle);
      },
      "stores_over_the_end.* writes shared memory past the bytes that its launch asks for");
  EXPECT_THROW(launch(stream, Grid{1, 64, 1, 240'000}, turned_bytes, static_cast<unsigned char*>(nullptr), 0), Failure);
  const cudaLaunchConfig_t config = {{1}, {64}, 50'000, stream.handle, nullptr, 0};
  unsigned char* out = nullptr;
  int count = 0;
  void* arguments[] = {&out, &count};
  cudaFuncSetAttribute(reinterpret_cast<const void*>(turned_bytes), cudaFuncAttributeMaxDynamicSharedMemorySize,
                       49'999);
  EXPECT_EQ(cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(turned_bytes), arguments),
            cudaErrorInvalidValue);
}

TEST(Lanes, AKernelHasTheSharedMemoryThatItDeclares) {
  TestStream stream;
  Memory<int> out(64);
  launch(stream, Grid{1, 64}, writes_over_an_array, static_cast<int*>(out), 32);
  EXPECT_EQ(out.host()[0], 31);
  EXPECT_REPORT(
      {
        launch(stream, Grid{1, 64}, writes_over_an_array, static_cast<int*>(out), 64);
        cudaStreamSynchronize(stream.handle);
      },
      "writes_over_an_array.*writes bytes .* of shared memory, outside of the variables that the kernel declares");
  Memory<float> numbers(32);
  EXPECT_REPORT(launch(stream, Grid{1, 32}, declares_too_much, static_cast<float*>(numbers)),
                "declares_too_much declares 49156 bytes of shared memory");
}

TEST(Lanes, ALaunchMayAskForWhatItsDeviceHas) {
  TestStream stream;
  const auto* const kernel = reinterpret_cast<const void*>(turned_bytes);
  const auto permit = [&](const char* capability, int bytes) {
    setenv("LLMC_SIM_CAPABILITY", capability, 1);
    const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    unsetenv("LLMC_SIM_CAPABILITY");
    return error;
  };
  for (const auto& [capability, kibibytes] :
       {std::pair{"80", 163}, {"86", 99}, {"89", 99}, {"90", 227}, {"100", 227}}) {
    EXPECT_EQ(permit(capability, kibibytes << 10), cudaSuccess) << capability;
    EXPECT_EQ(permit(capability, (kibibytes << 10) + 1), cudaErrorInvalidValue) << capability;
  }
  // The memory that a kernel declares counts too.
  EXPECT_EQ(cudaFuncSetAttribute(reinterpret_cast<const void*>(reverse), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 227 << 10),
            cudaErrorInvalidValue);

  Memory<float> out(16);
  const auto clusters_of = [&](unsigned blocks) {
    return launch_cluster(stream, Grid{16, 64}, blocks, ring, static_cast<float*>(out));
  };
  EXPECT_EQ(clusters_of(8), cudaSuccess);
  EXPECT_EQ(clusters_of(16), cudaErrorInvalidClusterSize);
  cudaFuncSetAttribute(reinterpret_cast<const void*>(ring), cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  EXPECT_EQ(clusters_of(16), cudaSuccess);
  setenv("LLMC_SIM_CAPABILITY", "80", 1);
  EXPECT_EQ(clusters_of(2), cudaErrorInvalidClusterSize);
  EXPECT_EQ(clusters_of(1), cudaSuccess);
  unsetenv("LLMC_SIM_CAPABILITY");
}

TEST(Lanes, BlocksAreNotOrdered) {
  TestStream stream;
  Memory<int> out(1);
  EXPECT_REPORT(
      {
        launch(stream, Grid{2, 32}, every_block_writes, static_cast<int*>(out));
        cudaStreamSynchronize(stream.handle);
      },
      "race in kernel every_block_writes .*lane 0 of block 1 writes bytes \\[0, 4\\) of allocation [0-9]+, "
      "which has 4; lane 0 of block 0 wrote them");
}

TEST(Lanes, GlobalMemoryNeedsBarriersToo) {
  TestStream stream;
  Memory<int> out(65);
  EXPECT_REPORT(
      {
        launch(stream, Grid{1, 64}, leads_writes_others_read, static_cast<int*>(out));
        cudaStreamSynchronize(stream.handle);
      },
      "lane 1 of block 0 reads bytes \\[0, 4\\).*lane 0 of block 0 wrote");
}

TEST(Lanes, PartsOfAWordMayHaveAWriterEach) {
  TestStream stream;
  Memory<unsigned short> out(64);
  launch(stream, Grid{1, 64}, neighbours, static_cast<unsigned short*>(out));
  EXPECT_EQ(out.host()[63], 63);
  Memory<unsigned char> bytes(std::vector<unsigned char>(64, 100));
  launch(stream, Grid{1, 64}, byte_neighbours, static_cast<unsigned char*>(bytes));
  EXPECT_EQ(bytes.host()[63], 163);
}

TEST(Lanes, ArgumentsOfEveryKindArrive) {
  TestStream stream;
  Memory<float> values(std::vector<float>{1, 2, 3, 4});
  launch(stream, Grid{1, 32}, scale, static_cast<float*>(values), 3, 10, 0.5, 100, true);
  EXPECT_EQ(values.host(), (std::vector<float>{110.5f, 120.5f, 130.5f, 4.0f}));
  Memory<int> out(1);
  launch(stream, Grid{1, 32}, many, static_cast<int*>(out), 1, 1, 1, 1, 1, 1.0f, 1, 1, 1.0);
  EXPECT_EQ(out.host()[0], 45);
}

TEST(Lanes, AClusterWritesItsBlocksSharedMemory) {
  TestStream stream;
  Memory<float> out(8);
  ASSERT_EQ(launch_cluster(stream, Grid{8, 64}, 4, ring, static_cast<float*>(out)), cudaSuccess);
  EXPECT_EQ(out.host(), (std::vector<float>{1, 2, 3, 0, 5, 6, 7, 4}));
  EXPECT_EQ(launch_cluster(stream, Grid{8, 64}, 3, ring, static_cast<float*>(out)), cudaErrorInvalidClusterSize);
}

TEST(Lanes, AClusterNeedsItsBarrier) {
  TestStream stream;
  Memory<float> out(4);
  const auto run = [&](void (*kernel)(float*)) {
    launch_cluster(stream, Grid{4, 64}, 4, kernel, static_cast<float*>(out));
    cudaStreamSynchronize(stream.handle);
  };
  EXPECT_REPORT(run(ring_without_barrier), "race in kernel ring_without_barrier");
  EXPECT_REPORT(run(ring_without_release), "race in kernel ring_without_release");
  EXPECT_REPORT(run(ring_before_the_others), "ring_before_the_others writes .* a block that may not have begun");
  EXPECT_REPORT(run(ring_after_the_end), "ring_after_the_end writes shared memory of a block that has ended");
  EXPECT_REPORT(run(arrives_twice), "arrives_twice: lane 0 comes to the barrier of its cluster twice");
  EXPECT_REPORT(run(waits_without_arriving), "lane 0 waits at the barrier of its cluster without having come");
}

/// Distance of a result from the exact one in units in the last place.
double ulps(float got, double exact) {
  const float near = std::abs(static_cast<float>(exact));
  return (got - exact) / (std::nextafter(near, INFINITY) - near);
}

TEST(Lanes, ApproximateInstructionsAreOffByWhatTheyMayBe) {
  std::vector<float> arguments;
  for (int i = 0; i < 4096; ++i) arguments.push_back(-120.0f + 0.0589f * static_cast<float>(i));
  const int count = static_cast<int>(arguments.size());
  TestStream stream;
  Memory<float> in(arguments), powers(arguments.size()), inverses(arguments.size());
  launch(stream, Grid{32, 128}, approximations, static_cast<float*>(in), static_cast<float*>(powers),
         static_cast<float*>(inverses), count);
  const std::vector<float> p = powers.host(), r = inverses.host();
  double most = 0, least = 0, most_r = 0, least_r = 0;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const double v = arguments[i], off = ulps(p[i], std::exp2(v)), off_r = ulps(r[i], 1 / v);
    ASSERT_TRUE(std::isfinite(off) && std::isfinite(off_r)) << v;  // std::max drops NaN
    most = std::max(most, off), least = std::min(least, off);
    most_r = std::max(most_r, off_r), least_r = std::min(least_r, off_r);
  }
  EXPECT_GT(most, 1.5);
  EXPECT_LT(most, 2.51);
  EXPECT_LT(least, -1.5);
  EXPECT_GT(least, -2.51);
  EXPECT_GT(most_r, 0.5);
  EXPECT_LT(most_r, 1.51);
  EXPECT_LT(least_r, -0.5);
  EXPECT_GT(least_r, -1.51);

  Memory<float> edges(std::vector<float>{0, -0.0f, 1e-40f, -126.5f, 128.0f, -INFINITY, INFINITY, NAN});
  launch(stream, Grid{1, 128}, approximations, static_cast<float*>(edges), static_cast<float*>(powers),
         static_cast<float*>(inverses), 8);
  const std::vector<float> e = powers.host(), q = inverses.host();
  EXPECT_EQ(e[0], 1);
  EXPECT_EQ(e[1], 1);
  EXPECT_EQ(e[2], 1);
  EXPECT_EQ(e[3], 0);
  EXPECT_EQ(e[4], INFINITY);
  EXPECT_EQ(e[5], 0);
  EXPECT_EQ(e[6], INFINITY);
  EXPECT_TRUE(std::isnan(e[7]));
  EXPECT_EQ(q[0], INFINITY);
  EXPECT_EQ(q[2], INFINITY);
  EXPECT_EQ(q[5], 0);
  EXPECT_TRUE(std::isnan(q[7]));
}

TEST(Lanes, AddressesOutsideAreFound) {
  TestStream stream;
  Memory<int> out(100);
  EXPECT_REPORT(
      {
        launch(stream, Grid{1, 32}, past_the_end, static_cast<int*>(out), 100);
        cudaStreamSynchronize(stream.handle);
      },
      "kernel past_the_end .*lane 4 of block 0 writes 4 bytes outside");
}

TEST(Lanes, HostVariablesAreOutside) {
  static float of_host = 1.0f;
  TestStream stream;
  Memory<float> out(1);
  EXPECT_REPORT(
      {
        launch(stream, Grid{1, 1}, reads, static_cast<const float*>(&of_host), static_cast<float*>(out));
        cudaStreamSynchronize(stream.handle);
      },
      "kernel reads .*lane 0 of block 0 reads 4 bytes outside of any allocation");
}

TEST(Lanes, VectorsMustBeAligned) {
  TestStream stream;
  Memory<float> out(8);
  EXPECT_REPORT(
      {
        launch(stream, Grid{1, 1}, unaligned_vector, static_cast<float*>(out));
        cudaStreamSynchronize(stream.handle);
      },
      "kernel unaligned_vector .*kernels.cu:[0-9]+ uses a .*float4.* not a multiple of 16");
}

TEST(Lanes, MemoryThatWasFreedIsGone) {
  TestStream stream;
  float* gone = Memory<float>(32);
  EXPECT_REPORT(
      {
        launch(stream, Grid{1, 32}, fill, gone, 32, 1.0f);
        cudaStreamSynchronize(stream.handle);
      },
      "kernel fill .*outside of any allocation");
}

}  // namespace
}  // namespace llmc
