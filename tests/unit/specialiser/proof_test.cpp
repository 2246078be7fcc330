// The proof finds equal code for specialised kernels, and a difference where there is one.

#include "proof.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "../folder.h"
#include "error.h"
#include "sample.h"

namespace llmc::emit {
namespace {

constexpr spec::TargetKind kBoth[] = {spec::TargetKind::cpu, spec::TargetKind::cuda};

std::vector<std::string> archs(spec::TargetKind target) {
  return target == spec::TargetKind::cpu ? std::vector<std::string>{"x86-64-v3", "x86-64-v4"}
                                         : std::vector<std::string>{"sm_80", "sm_90a"};
}

ProofTools without_nvcc() { return ProofTools{}; }

TEST(Proof, SpecialisedKernelsCompileToTheSameCode) {
  for (const spec::TargetKind target : kBoth) {
    for (const int variant : {0, 1, 2, 3}) {
      const SpecialiseInput input = whole_kernel(target, variant & 1, variant & 2, 1000 + variant);
      const auto difference = first_difference(input, specialise(input).text, archs(target), without_nvcc());
      EXPECT_EQ(difference, std::nullopt) << *difference;
    }
  }
}

TEST(Proof, NvccAgrees) {
  const ProofTools tools = find_proof_tools();
  if (tools.nvcc.empty()) GTEST_SKIP() << "no nvcc";
  const SpecialiseInput input = whole_kernel(spec::TargetKind::cuda, false, true, 1000);
  const auto difference = first_difference(input, specialise(input).text, {"sm_90a"}, tools);
  EXPECT_EQ(difference, std::nullopt) << *difference;
}

/// Constructs of group headers on a GPU parse and compile with the stub as with nvcc.
TEST(Proof, TheStubOffersWhatAGroupNeeds) {
  SpecialiseInput input;
  input.template_name = input.entry = "sum_rows";
  input.template_file = "templates/sum_rows.cu";
  input.target = spec::TargetKind::cuda;
  input.include_directory = kRuntime;
  input.params = {{"int", "kLanes", "128"}, {"int", "kCols", "2048"}};
  input.template_text = R"(#include "params.h"
namespace llmc {
__global__ __launch_bounds__(kLanes) void sum_rows(const float* __restrict__ x, float* __restrict__ out, int rows) {
  __shared__ float parts[kLanes / 32];
  for (int row = static_cast<int>(blockIdx.x); row < rows; row += static_cast<int>(gridDim.x)) {
    float sum = 0;
    const float4* line = reinterpret_cast<const float4*>(x + static_cast<long long>(row) * kCols);
#pragma unroll
    for (int i = static_cast<int>(threadIdx.x); i < kCols / 4; i += kLanes) {
      const float4 v = line[i];
      sum = fmaf(v.x, v.x, sum) + fmaf(v.y, v.y, fmaxf(v.z, v.w));
    }
    for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    float total = 0;
    for (int i = 0; i < kLanes / 32; ++i) total += parts[i];
    if (threadIdx.x == 0) out[row] = isfinite(total) ? rsqrtf(total) : __uint_as_float(0x7fc00000u);
    __syncthreads();
  }
}
}  // namespace llmc
)";
  const std::string text = specialise(input).text;
  for (const ProofTools& tools : {without_nvcc(), find_proof_tools()}) {
    const auto difference = first_difference(input, text, {"sm_90a"}, tools);
    EXPECT_EQ(difference, std::nullopt) << *difference;
  }
}

TEST(Proof, IncludeStyleCompilesToTheSameCode) {
  // Layout of an emitted project: templates/ next to runtime/.
  const test::Folder files;
  const std::filesystem::path root = files.path;
  std::filesystem::create_directories(root / "templates");
  std::filesystem::create_directories(root / "runtime");
  std::filesystem::copy(kRuntime / "device", root / "runtime" / "device",
                        std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
  SpecialiseInput input = whole_kernel(spec::TargetKind::cpu, false, true, 1000);
  input.include_directory = root / "runtime";
  std::ofstream(root / input.template_file) << input.template_text;
  std::ofstream(root / "templates" / "params.h")
      << "#pragma once\n#ifndef LLMC_PARAMS_GIVEN\n#error defaults\n#endif\n";
  const auto difference = first_difference(input, include_style(input), {"x86-64-v3"}, without_nvcc());
  EXPECT_EQ(difference, std::nullopt) << *difference;
}

TEST(Proof, FindsAChangedNumber) {
  for (const spec::TargetKind target : kBoth) {
    const SpecialiseInput input = whole_kernel(target, true, false, 1000);
    std::string text = specialise(input).text;
    text.replace(text.find("row * 1000"), 10, "row * 1001");
    EXPECT_NE(first_difference(input, text, archs(target), without_nvcc()), std::nullopt);
  }
}

TEST(Proof, ReportsTheCompilersWords) {
  const SpecialiseInput input = whole_kernel(spec::TargetKind::cpu, true, false, 1000);
  try {
    first_difference(input, "int x = y;\n", {"x86-64-v3"}, without_nvcc());
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), Exit::toolchain);
    EXPECT_NE(std::string(failure.what()).find("was not declared in this scope"), std::string::npos) << failure.what();
  }
}

}  // namespace
}  // namespace llmc::emit
