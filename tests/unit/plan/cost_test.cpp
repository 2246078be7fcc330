// Figures of known models.
#include "compiler/plan/cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "small_spec.h"

namespace llmc::plan {
namespace {

Plan of_file(const std::string& name, const std::vector<std::string>& overrides = {}) {
  const spec::LoadResult loaded = spec::load(std::string(SPECS_FOLDER) + "/" + name, overrides);
  EXPECT_TRUE(loaded.resolved) << spec::render(loaded.diagnostics);
  return make_plan(loaded.resolved->spec, loaded.resolved->fingerprint);
}

TEST(Cost, Llama1b) {
  const Plan plan = of_file("llama-1b.yaml");
  EXPECT_EQ(plan.parameters.logical, 1241581568);
  // 6 x (parameters of the linears and the head) + 6 x layers x heads x head_dim x sequence, by hand.
  const double layer = 2048.0 * (2048 + 2 * 512) + 2048.0 * 2048 + 3 * 2048.0 * 8192;
  const double linear = 6 * (16 * layer + 131072.0 * 2048), attention = 6.0 * 16 * 2048 * 2048;
  EXPECT_DOUBLE_EQ(plan.cost.linear_flops_per_token, linear);
  EXPECT_DOUBLE_EQ(plan.cost.attention_flops_per_token, attention);
  EXPECT_DOUBLE_EQ(plan.cost.model_flops_per_token, linear + attention);
  EXPECT_NEAR(plan.cost.model_flops_per_token / 1e9, 7.852, 0.0005);
  EXPECT_EQ(plan.micro_batches(), 32);
}

TEST(Cost, LaunchesAreWhatTheStepDoes) {
  const Plan plan = of_file("quickstart.yaml");
  std::int64_t launches = 0;
  double flops = 0;
  for (const Launch& launch : plan.launches) {
    const std::int64_t times = launch.per_step ? launch.times : launch.times * plan.micro_batches();
    launches += times;
    flops += static_cast<double>(times) * launch.flops;
  }
  EXPECT_EQ(plan.cost.launches_per_step, launches);
  EXPECT_NEAR(plan.cost.hardware_flops_per_step, flops, 1e-9 * flops);
  // Without recomputation nearly all FLOPs are the model's; attention's backward computes the scores again.
  const double model = plan.cost.model_flops_per_token * static_cast<double>(plan.spec.batch.tokens);
  EXPECT_GT(flops, model);
  EXPECT_LT(flops, 1.1 * model);
}

/// Blocks of a cluster, and how often the kernel moves its logits.
std::pair<std::int64_t, double> cross_entropy(const std::vector<std::string>& overrides) {
  const Plan plan = of_file("llama-1b.yaml", overrides);
  for (const Kernel& k : plan.kernels)
    if (k.name == "cross_entropy_gradient")
      return {k.cluster, k.bytes / (2.0 * static_cast<double>(k.rows * plan.spec.model.vocab_size))};
  return {};
}

TEST(Cost, LongRowsOfLogitsAreReadOnceWhereThereAreClusters) {
  using Figures = std::pair<std::int64_t, double>;
  EXPECT_EQ(cross_entropy({}), Figures(8, 2));
  EXPECT_EQ(cross_entropy({"target.arch=[80]"}), Figures(1, 4));  // for maximum, sum and gradient
  EXPECT_EQ(cross_entropy({"target.arch=[80, 90a]"}), Figures(1, 4));  // one launch for both
  EXPECT_EQ(cross_entropy({"target.arch=[80]", "model.vocab_size=65536"}), Figures(1, 2));
  EXPECT_EQ(cross_entropy({"model.vocab_size=49152"}), Figures(1, 2));  // 96 KiB
  EXPECT_EQ(cross_entropy({"model.vocab_size=49160"}), Figures(4, 2));
  EXPECT_EQ(cross_entropy({"model.vocab_size=262144"}), Figures(8, 2));
  EXPECT_EQ(cross_entropy({"model.vocab_size=262152"}), Figures(1, 4));
}

/// The names of the plan's attention kernels.
std::set<std::string> attention(const std::vector<std::string>& overrides) {
  std::set<std::string> names;
  for (const Kernel& k : of_file("quickstart.yaml", overrides).kernels)
    if (k.name.rfind("attention", 0) == 0) names.insert(k.name);
  return names;
}

TEST(Cost, AttentionIsInTilesWhereTheArchHasThem) {
  const std::set<std::string> portable = {"attention_forward", "attention_backward"};
  const std::set<std::string> tiles = {"attention_forward_tiles", "attention_backward_tiles"};
  EXPECT_EQ(attention({"precision.compute=bf16", "target.arch=sapphirerapids"}), tiles);
  EXPECT_EQ(attention({"precision.compute=bf16", "target.arch=cooperlake"}), portable);
  EXPECT_EQ(attention({"precision.compute=bf16"}), portable);  // native: the same plan on every machine
  EXPECT_EQ(attention({"target.arch=sapphirerapids"}), portable);  // fp32
}

TEST(Cost, RecomputationAddsLaunchesAndFlops) {
  const Cost none = make_plan(small_spec().spec, "").cost;
  const Cost full = make_plan(small_spec({"memory.recompute=full"}).spec, "").cost;
  EXPECT_GT(full.launches_per_step, none.launches_per_step);
  EXPECT_GT(full.hardware_flops_per_step, none.hardware_flops_per_step);
  EXPECT_EQ(full.model_flops_per_token, none.model_flops_per_token);
}

TEST(Cost, EveryLaunchHasItsKernelOrProduct) {
  for (const char* file : {"tiny.yaml", "quickstart.yaml", "llama-1b.yaml"}) {
    const Plan plan = of_file(file);
    std::set<std::string> names;
    for (const Kernel& k : plan.kernels) EXPECT_TRUE(names.insert(k.name).second) << k.name;
    for (const Product& p : plan.products) EXPECT_TRUE(names.insert(p.name).second) << p.name;
    for (const Launch& launch : plan.launches)
      if (launch.kind == "kernel" || launch.kind == "gemm") {
        EXPECT_TRUE(names.count(launch.what)) << file << ": " << launch.what;
      }
  }
}

TEST(Cost, ParamsOfOneKernelAreUnique) {
  for (const char* file : {"tiny.yaml", "llama-1b.yaml"}) {
    const Plan plan = of_file(file);
    for (const Kernel& kernel : plan.kernels) {
      std::set<std::string> names;
      for (const KernelParam& p : kernel.params) {
        EXPECT_TRUE(names.insert(p.name).second) << kernel.name << ": " << p.name;
        EXPECT_FALSE(p.value.empty() || p.type.empty()) << kernel.name << ": " << p.name;
        EXPECT_NE(kernel.key().find(p.name), std::string::npos);
      }
    }
  }
}

}  // namespace
}  // namespace llmc::plan
