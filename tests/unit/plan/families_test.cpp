// The specs of families, on eight H100s.
#include "spec/huggingface/families.h"

#include <gtest/gtest.h>

#include <cmath>

#include "compiler/plan/cost.h"
#include "compiler/plan/search.h"
#include "small_spec.h"

namespace llmc::plan {
namespace {

TEST(FamilySpecs, FitEightH100s) {
  // Parameters as Hugging Face counts them.
  const struct {
    const char *file, *model_type;
    std::int64_t parameters;
  } specs[] = {
      {"qwen3-0.6b.yaml", "qwen3", 596049920},
      {"olmo2-1b.yaml", "olmo2", 1484916736},
      {"gemma3-1b.yaml", "gemma3_text", 999885952},
      {"nanochat-d24.yaml", "", 780140544},  // of no family: no export
  };
  for (const auto& [file, model_type, parameters] : specs) {
    const spec::LoadResult loaded = spec::load(std::string(SPECS_FOLDER) + "/" + file, {});
    ASSERT_TRUE(loaded.resolved) << spec::render(loaded.diagnostics);
    const spec::Spec& spec = loaded.resolved->spec;
    const spec::Family* family = spec::family_of(spec.model);
    EXPECT_STREQ(family ? family->model_type : "", model_type) << spec::no_family(spec.model);
    EXPECT_EQ(spec.parallel.world_size, 8) << file;
    const Plan plan = make_plan(spec);
    EXPECT_TRUE(fits_budget(plan)) << file;
    EXPECT_EQ(plan.parameters.logical, parameters) << file;
    EXPECT_EQ(plan.device.name, "h100-sxm") << file;
  }
}

/// The formulas of nanochat's base_train.py, from what it has at depth 12 and a batch of half a Mi tokens.
TEST(FamilySpecs, NanochatHasTheRatesOfItsDepthAndBatch) {
  const spec::LoadResult loaded = spec::load(std::string(SPECS_FOLDER) + "/nanochat-d24.yaml", {});
  ASSERT_TRUE(loaded.resolved) << spec::render(loaded.diagnostics);
  const spec::Spec& spec = loaded.resolved->spec;
  const auto parameters = [](double depth) {  // of layers and head
    const double width = 64 * depth;
    return depth * 12 * width * width + 32768 * width;
  };
  const double batch = std::sqrt(2.0), width = 1 / std::sqrt(1536.0 / 768);
  const auto rate_of = [&](ParameterRole role) {
    return spec.optimizer.lr * spec.optimizer.rate_scale[static_cast<std::size_t>(role)];
  };
  EXPECT_NEAR(spec.optimizer.lr, 0.02 * batch, 1e-6);
  EXPECT_NEAR(rate_of(ParameterRole::embedding), 0.3 * batch * width, 1e-4);
  EXPECT_NEAR(rate_of(ParameterRole::head), 0.008 * batch * width, 1e-5);
  EXPECT_NEAR(spec.optimizer.weight_decay, 0.28 * batch * parameters(12) / parameters(24), 1e-4);
  EXPECT_EQ(spec.batch.tokens, 1 << 20);
  EXPECT_EQ(spec.schedule.steps, static_cast<std::int64_t>(8 * parameters(24)) >> 20);
}

TEST(FamilySpecs, BothPhasesOfTheWholeRunFitEightH100s) {
  const spec::LoadResult loaded = spec::load(std::string(SPECS_FOLDER) + "/seed-1b.yaml", {});
  ASSERT_EQ(loaded.phases.size(), 2u) << spec::render(loaded.diagnostics);
  const spec::Spec &first = loaded.phases[0].spec, &second = loaded.phases[1].spec;
  // 20 times 1,241,581,568 parameters in steps of 2 Mi tokens.
  EXPECT_EQ(first.schedule.steps, 11841);
  EXPECT_EQ(first.phase.last, 10657);
  EXPECT_EQ(second.phase.first, 10657);
  EXPECT_EQ(second.phase.last, 11841);
  EXPECT_EQ(second.batch.sequence_length, 4096);
  EXPECT_EQ(second.data.mixture.at(2).weight, 0.4);
  EXPECT_EQ(second.phase.changed,
            (std::vector<std::string>{"model.rope_theta", "batch.sequence_length", "data.train.code.weight"}));
  for (const spec::Resolved& phase : loaded.phases) {
    const Plan plan = make_plan(phase.spec);
    EXPECT_TRUE(fits_budget(plan));
    EXPECT_EQ(plan.device.name, "h100-sxm");
    EXPECT_EQ(plan.parameters.logical, 1241581568);
  }
}

/// A post norm adds to the stream in one pass over memory: x and the sum, the result, and a copy in bf16.
TEST(FamilySpecs, ThePlanHasTheBytesOfPostNorms) {
  const Plan plan = make_plan(
      small_spec({"model.norm_place=post", "model.attention_bias=false", "model.mlp_bias=false",
                  "precision.compute=bf16", "model.hidden_size=16", "model.head_dim=4", "memory.recompute=none"})
          .spec);
  const double elements = static_cast<double>(plan.graph.tokens() * 16),
               rows = static_cast<double>(plan.graph.tokens());
  int found = 0;
  for (const Launch& launch : plan.launches) {
    const double weight = 4 * 16, rstd = 4 * rows;
    const double expected = launch.op == "attention_out_norm" ? elements * (2 + 4 + 4 + 2) + weight + rstd
                            : launch.op == "mlp_out_norm"     ? elements * (2 + 4 + 4) + weight + rstd
                            : launch.op == "attention_round"  ? elements * (4 + 2)
                                                              : 0;
    if (expected == 0) continue;
    ++found;
    EXPECT_EQ(launch.bytes, expected) << launch.op;
  }
  EXPECT_EQ(found, 3);
}

/// RoPE of a part of each head moves that part of q and k, and has a table of its angles alone.
TEST(FamilySpecs, ThePlanHasTheBytesOfPartsOfHeads) {
  const auto rope = [](const std::string& scaling) {
    const Plan plan =
        make_plan(small_spec({"model.qk_norm=false", "model.hidden_size=64", "model.num_attention_heads=4",
                              "model.num_key_value_heads=2", "model.head_dim=16", "precision.compute=bf16",
                              "model.partial_rotary_factor=0.25", "model.rope_scaling=" + scaling})
                      .spec);
    const auto found = std::ranges::find(plan.launches, "rope", &Launch::op);
    EXPECT_NE(found, plan.launches.end());
    const double rows = static_cast<double>(plan.graph.tokens()),
                 table = 4.0 * 4 * static_cast<double>(plan.graph.sequence);
    return (found->bytes - table) / rows;
  };
  EXPECT_EQ(rope("none"), 2 * 2 * 6 * 4);
  EXPECT_EQ(rope("{type: yarn, original_max_position_embeddings: 4, llama_4_scaling_beta: 0.1}"),
            2 * 2 * (6 * 4 + 4 * 12));
}

}  // namespace
}  // namespace llmc::plan
