// The proof finds equal code for specialised kernels, and a difference where there is one.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "compiler/emit/specialiser/proof.h"
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
      const auto difference = first_difference(input, specialise(input), archs(target), without_nvcc());
      EXPECT_EQ(difference, std::nullopt) << *difference;
    }
  }
}

TEST(Proof, NvccAgrees) {
  const ProofTools tools = find_proof_tools();
  if (tools.nvcc.empty()) GTEST_SKIP() << "no nvcc";
  const SpecialiseInput input = whole_kernel(spec::TargetKind::cuda, false, true, 1000);
  const auto difference = first_difference(input, specialise(input), {"sm_90a"}, tools);
  EXPECT_EQ(difference, std::nullopt) << *difference;
}

TEST(Proof, IncludeStyleCompilesToTheSameCode) {
  // The layout of an emitted project: templates/ beside runtime/.
  const std::filesystem::path root = std::filesystem::path(testing::TempDir()) / "llmc-include-style";
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
  std::filesystem::remove_all(root);
}

TEST(Proof, FindsAChangedNumber) {
  for (const spec::TargetKind target : kBoth) {
    const SpecialiseInput input = whole_kernel(target, true, false, 1000);
    std::string text = specialise(input);
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
