// Differences between two checkpoints: statistics of tensors, keys, state.
#include "compiler/tools/checkpoints/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "checkpoint/manifest.h"
#include "small_run.h"

namespace llmc::checkpoints {
namespace {

namespace fs = std::filesystem;

class Compare : public testing::Test {
 protected:
  Comparison compared(SmallModel& before, SmallModel& after, std::int64_t step = 1) {
    const Contents a = open(before.save(a_.path, 1)), b = open(after.save(b_.path, step, kSmallShard));
    Comparison comparison = compare(a, b);
    text_ = comparison_text(a, b, comparison);
    return comparison;
  }

  test::Folder a_, b_;
  std::string text_;
};

TEST_F(Compare, EqualWhateverTheFiles) {
  SmallModel model;
  const Comparison comparison = compared(model, model);
  EXPECT_TRUE(comparison.empty()) << text_;
  EXPECT_EQ(comparison.equal, static_cast<std::int64_t>(3 * model.tensors()));
  EXPECT_NE(text_.find("are equal"), std::string::npos);
}

TEST_F(Compare, OneElement) {
  SmallModel before, after;
  const std::string name = "model.layers.2.mlp.down_proj.weight";
  double norm = 0;
  const ParameterInfo& p = before.parameter(name);
  for (std::int64_t i = 0; i < p.rows * p.cols; ++i) norm += std::pow(before.weight(name, i), 2);
  after.weight(name, 5) = before.weight(name, 5) + 0.5f;
  const Comparison comparison = compared(before, after);
  ASSERT_EQ(comparison.tensors.size(), 1u) << text_;
  EXPECT_EQ(comparison.tensors[0].name, name);
  const double change = std::abs(static_cast<double>(after.weight(name, 5)) - before.weight(name, 5));
  EXPECT_DOUBLE_EQ(comparison.tensors[0].largest, change);
  EXPECT_NEAR(comparison.tensors[0].relative, change / std::sqrt(norm), 1e-12);
  EXPECT_EQ(comparison.equal, static_cast<std::int64_t>(3 * before.tensors() - 1));
}

TEST_F(Compare, MomentsCountAndTheLargestComesFirst) {
  SmallModel before, after;
  after.at(1, after.parameter("lm_head.weight"), 3) += 1e-3f;
  after.at(2, after.parameter("model.norm.weight"), 0) += 1;
  after.weight("model.embed_tokens.weight", 7) += 1e-2f;
  std::vector<std::string> names;
  for (const TensorChange& change : compared(before, after).tensors) names.push_back(change.name);
  EXPECT_EQ(names, (std::vector<std::string>{"exp_avg_sq.model.norm.weight", "model.embed_tokens.weight",
                                             "exp_avg.lm_head.weight"}));
}

TEST_F(Compare, OtherBitsOfEqualValuesDiffer) {
  SmallModel before, after;
  before.weight("model.norm.weight", 0) = 0.0f;
  after.weight("model.norm.weight", 0) = -0.0f;
  const Comparison comparison = compared(before, after);
  ASSERT_EQ(comparison.tensors.size(), 1u);
  EXPECT_EQ(comparison.tensors[0].relative, 0);
}

TEST_F(Compare, NotFiniteComesFirst) {
  SmallModel before, after;
  after.weight("model.norm.weight", 0) += 1e3f;
  after.at(1, after.parameter("lm_head.weight"), 3) = std::numeric_limits<float>::quiet_NaN();
  const Comparison comparison = compared(before, after);
  ASSERT_EQ(comparison.tensors.size(), 2u);
  EXPECT_EQ(comparison.tensors[0].name, "exp_avg.lm_head.weight");
  EXPECT_TRUE(std::isnan(comparison.tensors[0].relative) && std::isnan(comparison.tensors[0].largest));
  EXPECT_TRUE(comparison_json(comparison).at("tensors")[0].at("relative").is_number_float());
  EXPECT_NE(comparison_json(comparison).dump().find(R"("relative":null)"), std::string::npos);
}

TEST_F(Compare, StepAndKeys) {
  SmallModel before, after({"optimizer.lr=0.5"});
  const Comparison comparison = compared(before, after, 2);
  ASSERT_EQ(comparison.keys.size(), 1u) << text_;
  EXPECT_EQ(comparison.keys[0].key->path, "optimizer.lr");
  EXPECT_EQ(comparison.keys[0].after, "0.5");
  ASSERT_FALSE(comparison.state.empty());
  EXPECT_EQ(comparison.state[0].first, "step");
  EXPECT_TRUE(comparison.tensors.empty());
  EXPECT_FALSE(comparison.empty());
}

TEST_F(Compare, OtherModels) {
  SmallModel before, after({"model.intermediate_size=52", "model.num_hidden_layers=2", "model.tie_word_embeddings=true",
                            "model.qk_norm=true", "model.mlp_bias=false"});
  const Comparison comparison = compared(before, after);
  const auto holds = [](const std::vector<std::string>& list, const char* name) {
    return std::count(list.begin(), list.end(), name) == 1;
  };
  EXPECT_TRUE(holds(comparison.removed, "lm_head.weight") &&
              holds(comparison.removed, "model.layers.2.mlp.up_proj.weight"));
  EXPECT_TRUE(holds(comparison.added, "exp_avg.model.layers.0.self_attn.q_norm.weight"));
  EXPECT_NE(text_.find("model.layers.0.mlp.up_proj.weight: F32 [50, 36] -> F32 [52, 36]"), std::string::npos) << text_;
}

}  // namespace
}  // namespace llmc::checkpoints
