// Tests the Device of a GPU.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "comm/collectives.h"
#include "comm/launcher.h"
#include "comm/rendezvous.h"
#include "device/device.h"
#include "error.h"

namespace llmc {
namespace {

constexpr std::size_t kLarge = (std::size_t{41} << 20) + 3;  // several turns of the staging ring

TEST(CudaDevice_gpu, MemoryIsZeroAndAligned) {
  Device device(0, 0);
  const std::byte* memory = device.allocate(kLarge);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 4096, 0u);
  std::vector<std::byte> host(kLarge, std::byte{7});
  device.copy_out(host.data(), memory, kLarge);
  device.synchronize();
  for (std::size_t i = 0; i < kLarge; ++i) ASSERT_EQ(host[i], std::byte{0}) << i;
}

TEST(CudaDevice_gpu, TheSourceOfACopyMayBeReusedAtOnce) {
  Device device(0, 0);
  std::byte* memory = device.allocate(2 * kLarge);
  std::vector<unsigned char> host(kLarge);
  for (int copy = 0; copy < 2; ++copy) {
    for (std::size_t i = 0; i < kLarge; ++i) host[i] = static_cast<unsigned char>(i * (copy + 3) % 251);
    device.copy_in(memory + static_cast<std::size_t>(copy) * kLarge, host.data(), kLarge);
  }
  device.zero(memory + 5, 10);
  std::vector<unsigned char> back(2 * kLarge);
  device.copy_out(back.data(), memory, 2 * kLarge);
  device.synchronize();
  for (std::size_t i = 0; i < kLarge; ++i) {
    ASSERT_EQ(back[i], i >= 5 && i < 15 ? 0 : i * 3 % 251) << i;
    ASSERT_EQ(back[kLarge + i], i * 4 % 251) << i;
  }
}

TEST(CudaDevice_gpu, MoreThanTheGpuHasIsRefusedWithBothSizes) {
  Device device(0, 0);
  try {
    device.allocate(std::size_t{1} << 46);
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), Exit::does_not_fit);
    EXPECT_NE(std::string(failure.what()).find("65536.00 GiB"), std::string::npos) << failure.what();
  }
  EXPECT_NE(device.allocate(1), nullptr);  // and the device still works
}

TEST(CudaDevice_gpu, AGpuThatIsNotThereIsNamed) {
  try {
    Device device(99, 0);
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), Exit::toolchain);
    EXPECT_NE(std::string(failure.what()).find("GPU 99"), std::string::npos);
  }
}

TEST(Nccl_gpu, OneRankKeepsItsValues) {
  Device device(0, 0);
  const LauncherInfo alone;
  Rendezvous rendezvous(alone, {});
  Communicator communicator(device, alone, rendezvous);
  EXPECT_EQ(communicator.rank(), 0);
  EXPECT_EQ(communicator.world_size(), 1);
  auto* values = reinterpret_cast<float*>(device.allocate(4096));
  const std::vector<float> host = {1.5f, -2.0f, 3.25f};
  device.copy_in(values, host.data(), 12);
  communicator.all_reduce_sum(values, 3, device.stream());
  communicator.broadcast(values, 12, 0, device.stream());
  std::vector<float> back(3);
  device.copy_out(back.data(), values, 12);
  device.synchronize();
  EXPECT_EQ(back, host);
}

}  // namespace
}  // namespace llmc
