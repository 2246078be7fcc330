// For every kernel of both generated specs: the machine code of the specialised file is that of template + params, and
// specialising the output again changes nothing.

#include "proof.h"

#include <gtest/gtest.h>

#include <atomic>
#include <iostream>
#include <mutex>
#include <thread>

#include "compiler/emit/project.h"
#include "compiler/spec/load.h"

namespace llmc::emit {
namespace {

namespace fs = std::filesystem;

const SourceTree kTree = {fs::path(SOURCE_FOLDER) / "templates", fs::path(SOURCE_FOLDER) / "runtime"};

plan::Plan plan_of(const std::string& file, const std::vector<std::string>& overrides) {
  const spec::LoadResult loaded = spec::load(std::string(SOURCE_FOLDER) + "/specs/" + file, overrides);
  EXPECT_TRUE(loaded.resolved) << spec::render(loaded.diagnostics);
  return plan::make_plan(loaded.resolved->spec);
}

/// Output as a template without params.
SpecialiseInput again(SpecialiseInput input, const std::string& text) {
  input.template_text = text;
  input.template_name = input.entry;
  input.params.clear();
  input.header.clear();
  return input;
}

/// Checks all kernels, two at a time, because the compilers take the time.
void prove(const std::string& file, const std::vector<std::string>& archs,
           const std::vector<std::string>& overrides = {}) {
  const plan::Plan plan = plan_of(file, overrides);
  const ProofTools tools = find_proof_tools();
  if (plan.spec.target.kind == spec::TargetKind::cuda)
    std::cout << "PTX by " << (tools.nvcc.empty() ? tools.clang : tools.nvcc) << "\n";
  ASSERT_GT(plan.kernels.size(), 15u);
  std::atomic<std::size_t> next{0};
  std::mutex reports;
  const auto work = [&] {
    for (std::size_t i = next++; i < plan.kernels.size(); i = next++) {
      std::string problem;
      try {
        const SpecialiseInput input = specialise_input(plan, plan.kernels[i], kTree);
        const std::string text = specialise(input).text;
        if (specialise(again(input, text)).text != text)
          problem = "specialising again changes it:\n" + text;
        else if (const auto difference = first_difference(input, text, archs, tools))
          problem = *difference;
      } catch (const std::exception& error) {
        problem = error.what();
      }
      const std::lock_guard lock(reports);
      EXPECT_EQ(problem, "") << plan.kernels[i].name;
    }
  };
  std::thread second(work);
  work();
  second.join();
  std::cout << plan.kernels.size() << " kernels of " << file << "\n";
}

TEST(Proof, QuickStart) { prove("quickstart.yaml", {"x86-64-v4"}); }

TEST(Proof, QuickStartInBf16) {
  prove("quickstart.yaml", {"x86-64-v3"}, {"precision.compute=bf16", "memory.recompute=[norms, swiglu]"});
}

TEST(Proof, QuickStartInTiles) {
  prove("quickstart.yaml", {"sapphirerapids"}, {"precision.compute=bf16", "target.arch=sapphirerapids"});
}

TEST(Proof, QuickStartWithProductsInBf16x3) {
  prove("quickstart.yaml", {"sapphirerapids"}, {"precision.matmul=bf16x3", "target.arch=sapphirerapids"});
}

TEST(Proof, QuickStartForOneInstructionSet) {
  prove("quickstart.yaml", {"cooperlake"}, {"precision.compute=bf16", "target.arch=cooperlake"});
}

TEST(Proof, Llama1b) { prove("llama-1b.yaml", {"sm_90a"}); }

TEST(Proof, Llama1bWithPortableAttention) {
  prove("llama-1b.yaml", {"sm_80"}, {"target.attention=portable", "memory.budget=77GiB", "target.arch=[80]"});
}

TEST(Proof, Llama1bInFp32) {
  prove("llama-1b.yaml", {"sm_80"}, {"precision.compute=fp32", "memory.budget=77GiB", "target.arch=[80]"});
}

}  // namespace
}  // namespace llmc::emit
