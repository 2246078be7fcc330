// The CUDA runtime on a machine without a GPU: which GPUs a trainer runs on, and error messages.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>
#include <utility>

#include "../facts.h"
#include "device/cuda/arch.h"
#include "device/cuda/check.h"
#include "error.h"

namespace llmc {
namespace {

TEST(CudaArch, MachineCodeRunsOnItsOwnMajorVersion) {
  EXPECT_TRUE(arch_runs_on("80", 80));
  EXPECT_TRUE(arch_runs_on("80", 86));
  EXPECT_FALSE(arch_runs_on("86", 80));
  EXPECT_FALSE(arch_runs_on("80", 90));
  EXPECT_TRUE(arch_runs_on("90a", 90));
  EXPECT_FALSE(arch_runs_on("100a", 103));
  EXPECT_TRUE(arch_runs_on("100", 103));
  EXPECT_TRUE(arch_runs_on("100f", 103));
  EXPECT_FALSE(arch_runs_on("90a", 100));
}

TEST(CudaArch, AnyOfAListWillDo) {
  EXPECT_TRUE(arch_runs_on("80,90a,100", 90));
  EXPECT_TRUE(arch_runs_on("80,90a,100", 100));
  EXPECT_FALSE(arch_runs_on("80,90a,100", 120));
  EXPECT_FALSE(arch_runs_on("", 90));
  EXPECT_FALSE(arch_runs_on("a,,x90", 90));
}

Failure failure_of(cudaError_t error, const char* call = "cudaSomething") {
  try {
    check(error, call);
  } catch (const Failure& failure) {
    return failure;
  }
  return {Exit::done, "nothing was thrown"};
}

TEST(CudaCheck, NamesTheCallTheErrorAndWhatToDo) {
  EXPECT_NO_THROW(check(cudaSuccess, "cudaSomething"));
  const Failure none = failure_of(cudaErrorNoDevice);
  EXPECT_EQ(none.code(), Exit::toolchain);
  EXPECT_EQ(std::string(none.what()).rfind("no CUDA device: cudaSomething says \"", 0), 0u) << none.what();
  EXPECT_EQ(failure_of(cudaErrorInsufficientDriver).code(), Exit::toolchain);

  const Failure image = failure_of(cudaErrorNoKernelImageForDevice);
  EXPECT_EQ(image.code(), Exit::toolchain);
  EXPECT_NE(std::string(image.what()).find("target.arch"), std::string::npos);

  const Failure memory = failure_of(cudaErrorMemoryAllocation);
  EXPECT_EQ(memory.code(), Exit::does_not_fit);
  EXPECT_NE(std::string(memory.what()).find("batch.micro_batch"), std::string::npos);

  const std::pair<cudaError_t, const char*> of_the_machine[] = {
      {cudaErrorDevicesUnavailable, "nvidia-smi -q -d COMPUTE"},
      {cudaErrorSystemNotReady, "Fabric Manager"},
      {cudaErrorSystemDriverMismatch, "reboot"},
      {cudaErrorCompatNotSupportedOnDevice, "cuda-compat"},
      {cudaErrorMpsConnectionFailed, "CUDA_MPS_PIPE_DIRECTORY"},
      {cudaErrorECCUncorrectable, "nvidia-smi -r"}};
  for (const auto& [error, advice] : of_the_machine) {
    const Failure failure = failure_of(error);
    EXPECT_EQ(failure.code(), Exit::toolchain) << failure.what();
    EXPECT_NE(std::string(failure.what()).find(advice), std::string::npos) << failure.what();
  }
  EXPECT_EQ(failure_of(cudaErrorUnknown, "cudaGetDeviceCount").code(), Exit::toolchain);
  EXPECT_EQ(failure_of(cudaErrorUnknown).code(), Exit::internal);

  const Failure kernel = failure_of(cudaErrorIllegalAddress);
  EXPECT_EQ(kernel.code(), Exit::internal);
  EXPECT_NE(std::string(kernel.what()).find("cudaErrorIllegalAddress"), std::string::npos);
}

TEST(CudaProgram, WithoutAGpuSaysSoAndExits3) {
  // The variable hides a GPU, because this tests the message.
  FILE* program = popen("CUDA_VISIBLE_DEVICES= " LLMC_CUDA_PROGRAM " 2>&1", "r");
  ASSERT_NE(program, nullptr);
  std::string output;
  std::array<char, 512> line;
  while (fgets(line.data(), line.size(), program)) output += line.data();
  const int status = pclose(program);
  ASSERT_TRUE(WIFEXITED(status)) << output;
  EXPECT_EQ(WEXITSTATUS(status), static_cast<int>(Exit::toolchain)) << output;
  EXPECT_TRUE(test::has_facts(
      output, {"no CUDA device: ", "cudaGetDeviceCount", "\"", "NVIDIA GPU", "nvidia-smi", "target.kind: cpu"}));
}

}  // namespace
}  // namespace llmc
