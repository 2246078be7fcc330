// The CPU device: memory, threads, floating-point mode and instruction sets.
#include "device/device.h"

#include <gtest/gtest.h>
#include <omp.h>
#include <sys/resource.h>

#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "../facts.h"
#include "device/cpu/address_space.h"
#include "device/cpu/arch.h"
#include "device/cpu/instructions.h"
#include "error.h"

namespace llmc {
namespace {

TEST(CpuDevice, MemoryIsZeroAndAligned) {
  Device device(0, 2);
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4097}, (std::size_t{5} << 20) + 3}) {
    const std::byte* memory = device.allocate(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 4096, 0u);
    for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(memory[i], std::byte{0});
  }
}

TEST(CpuDevice, MoreThanTheMachineHasIsRefusedWithBothSizes) {
  Device device(0, 1);
  try {
    device.allocate(std::size_t{1} << 46);
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), Exit::does_not_fit);
    EXPECT_NE(std::string(failure.what()).find("65536.00 GiB"), std::string::npos) << failure.what();
  }
}

TEST(CpuDevice, CopiesAndZeroes) {
  Device device(0, 3);
  std::vector<unsigned char> host(1000003, 7), back(host.size());
  std::byte* memory = device.allocate(host.size());
  device.copy_in(memory, host.data(), host.size());
  device.zero(memory + 1, host.size() - 2);
  device.copy_out(back.data(), memory, host.size());
  device.synchronize();
  EXPECT_EQ(back.front(), 7);
  EXPECT_EQ(back.back(), 7);
  for (std::size_t i = 1; i + 1 < back.size(); ++i) ASSERT_EQ(back[i], 0);
}

TEST(CpuDevice, EveryThreadFlushesDenormals) {
  Device device(0, 3);
  EXPECT_EQ(device.threads(), 3);
  volatile float smallest_normal = 1.2e-38f, factor = 0.1f, denormal = 1e-39f, large = 1e30f;
  int flushed = 0, read_as_zero = 0, threads = 0;
#pragma omp parallel reduction(+ : flushed, read_as_zero, threads)
  {
    const float product = smallest_normal * factor;
    flushed += std::bit_cast<std::uint32_t>(product) == 0;  // a comparison would read a denormal as zero
    read_as_zero += denormal * large == 0.0f;
    threads += 1;
  }
  EXPECT_EQ(threads, 3);
  EXPECT_EQ(flushed, 3);
  EXPECT_EQ(read_as_zero, 3);
}

TEST(CpuDevice, DescriptionNamesThreadsAndInstructions) {
  EXPECT_NE(std::string(Device(0, 2).description()).find(", 2 threads, "), std::string::npos);
  EXPECT_NE(std::string(Device(0, 1).description()).find(", 1 thread, "), std::string::npos);
}

/// Bytes of this process's address space.
std::size_t address_space() {
  std::ifstream file("/proc/self/statm");
  std::size_t pages = 0;
  file >> pages;
  return pages * 4096;
}

TEST(AddressSpace, IsTriedWhereThereIsALimit) {
  require_address_space(std::size_t{1} << 46, "anything");  // no limit: nothing is checked
  const auto tried = [](std::size_t bytes) {
    const rlim_t most = address_space() + (std::size_t{64} << 20);
    const rlimit limit{most, most};
    setrlimit(RLIMIT_AS, &limit);
    try {
      require_address_space(bytes, "a test");
    } catch (const Failure& failure) {
      std::fputs(failure.what(), stderr);
      std::exit(static_cast<int>(failure.code()));
    }
    std::exit(0);
  };
  EXPECT_EXIT(tried(std::size_t{32} << 20), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(tried(std::size_t{128} << 20), testing::ExitedWithCode(4), "ulimit -v\\).* 128 MiB .* a test");
}

TEST(Instructions, WhatIsMissingIsNamed) {
  EXPECT_EQ(missing_instructions(0), "");
  EXPECT_EQ(missing_instructions(kInstructionsOfSource), "") << "this test runs";
  EXPECT_EQ(missing_instructions(kAmxTile | kAmxBf16).empty(), cpu_has_tiles());
  const std::string missing = missing_instructions(~std::uint64_t{0});  // of makers that share no processor
  EXPECT_TRUE(missing.find("xop") != std::string::npos || missing.find("avx512fp16") != std::string::npos) << missing;
}

TEST(Instructions, AProcessorWithoutThemIsRefused) {
  Device::check_instructions("x86-64", 0);
  try {
    Device::check_instructions("another", kXop | kAvx512fp16);
    FAIL() << "it was taken";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), Exit::toolchain);
    EXPECT_TRUE(
        test::has_facts(failure.what(), {"built for another", "(" + machine_arch() + ") has no ", "target.arch"}));
  }
}

TEST(Arch, TheCompilerKnowsThisMachinesName) {
  const std::string command = "printf '' | g++ -x c++ -march=" + machine_arch() + " -fsyntax-only - 2>/dev/null";
  EXPECT_EQ(std::system(command.c_str()), 0) << "g++ does not know " << machine_arch();
}

}  // namespace
}  // namespace llmc
