#include "spec/huggingface/families.h"

#include <set>

#include "../facts.h"
#include "good_spec.h"

namespace llmc::spec {
namespace {

/// Model type of a spec, or the reason why it has none.
std::string type(const std::vector<std::string>& overrides) {
  const Model model = resolve(kGood, overrides).spec.model;
  const Family* family = family_of(model);
  EXPECT_EQ(no_family(model).empty(), family != nullptr);
  return family ? family->model_type : no_family(model);
}

TEST(Families, AreFoundByTheSpec) {
  const std::string window = "model.sliding_window=8", mixed = "model.layer_types=[sliding_attention, full_attention]";
  EXPECT_EQ(type({}), "llama");
  EXPECT_EQ(type({"model.attention_bias=true", "model.mlp_bias=true"}), "llama");
  EXPECT_EQ(type({window}), "mistral");
  EXPECT_EQ(type({window, mixed}), "ministral");
  EXPECT_EQ(type({"model.qk_norm=true", "model.attention_bias=true"}), "qwen3");
  EXPECT_EQ(type({"model.qk_norm=true", window, mixed}), "qwen3");
  EXPECT_EQ(type({"model.attention_bias=true", "model.attention_out_bias=false"}), "qwen2");
  EXPECT_EQ(type({"model.no_rope_layers=4"}), "smollm3");
  for (const char* factor : {"attention_multiplier", "embedding_multiplier", "residual_multiplier", "logits_scaling"})
    EXPECT_EQ(type({std::string("model.") + factor + "=0.5"}), "granite");
  EXPECT_TRUE(test::has_facts(type({"model.logits_scaling=8", "model.qk_norm=true"}), {"model."}));
  const std::string post = "model.norm_place=post", norm = "model.qk_norm=true", width = "model.qk_norm_over=width";
  EXPECT_EQ(type({post, norm, width}), "olmo2");
  const std::string local = "model.rope_local_theta=10000",
                    yarn = "model.rope_scaling={type: yarn, factor: 4, original_max_position_embeddings: 64}";
  EXPECT_EQ(type({post, norm, width, window, mixed}), "olmo3");
  EXPECT_EQ(type({post, norm, width, window, mixed, local, yarn}), "olmo3");
  EXPECT_TRUE(test::has_facts(type({post, norm, width, window, mixed, yarn}), {"olmo3", "model.rope_local_theta"}));
  EXPECT_TRUE(test::has_facts(type({window, local}), {"mistral", "model.rope_local_theta: 10000"}));
  EXPECT_TRUE(test::has_facts(type({"model.mlp_gated=false"}), {"llama", "model.mlp_gated: false"}));
  EXPECT_TRUE(test::has_facts(type({"model.hidden_act=gelu_pytorch_tanh"}), {"llama", "model.hidden_act: gelu"}));
  EXPECT_TRUE(test::has_facts(type({post, norm}), {"qwen3", "model.norm_place: post"}));
  EXPECT_TRUE(test::has_facts(type({norm, width}), {"qwen3", "model.qk_norm_over: width"}));
  EXPECT_TRUE(test::has_facts(type({norm, "model.qk_norm_place=after_rope"}), {"qwen3", "qk_norm_place: after_rope"}));
  EXPECT_TRUE(test::has_facts(type({"model.partial_rotary_factor=0.5"}), {"llama", "partial_rotary_factor: 0.5"}));
  EXPECT_TRUE(test::has_facts(type({"model.rope_interleaved=true"}), {"llama", "model.rope_interleaved: true"}));
  const std::string sandwich = "model.norm_place=sandwich", pairs = "model.rope_interleaved=true";
  EXPECT_EQ(type({sandwich, pairs, "model.partial_rotary_factor=0.5"}), "glm4");
  EXPECT_EQ(type({sandwich, pairs, "model.attention_bias=true", "model.attention_out_bias=false"}), "glm4");
  EXPECT_TRUE(test::has_facts(type({sandwich, pairs, "model.attention_bias=true"}),
                              {"glm4", "model.attention_out_bias: true"}));
  EXPECT_TRUE(
      test::has_facts(type({sandwich, "model.partial_rotary_factor=0.5"}), {"glm4", "model.rope_interleaved: false"}));
  const std::string ministral = "model.rope_scaling={type: yarn, llama_4_scaling_beta: 0.1}";
  EXPECT_EQ(type({ministral}), "ministral3");
  EXPECT_EQ(type({ministral, window}), "ministral3");
  EXPECT_TRUE(test::has_facts(type({ministral, norm}), {"ministral3", "model.qk_norm: true"}));
  std::vector<std::string> nanochat = {norm,
                                       "model.qk_norm_place=after_rope",
                                       "model.norm_weight=none",
                                       "model.embedding_norm=true",
                                       "model.hidden_act=relu2",
                                       "model.mlp_gated=false"};
  EXPECT_EQ(type(nanochat), "nanochat");
  nanochat.emplace_back("model.final_logit_softcapping=15");
  EXPECT_EQ(type(nanochat), "nanochat");
  nanochat[1] = "model.qk_norm_place=before_rope";
  EXPECT_TRUE(test::has_facts(type(nanochat), {"nanochat", "model.qk_norm_place: before_rope"}));
  EXPECT_TRUE(test::has_facts(type({"model.embedding_norm=true"}), {"llama", "model.embedding_norm: true"}));
  EXPECT_TRUE(test::has_facts(type({"model.norm_place=sandwich"}), {"llama", "model.norm_place: sandwich"}));
  const auto of_gemma = [&](std::vector<std::string> more, const std::string& weights = "one_plus",
                            const std::string& factor = "16") {
    more.insert(more.end(), {"model.norm_place=sandwich", "model.norm_weight=" + weights, window, mixed,
                             "model.hidden_act=gelu_pytorch_tanh", "model.embedding_multiplier=" + factor});
    return type(more);
  };
  EXPECT_EQ(of_gemma({}), "gemma2");
  EXPECT_EQ(of_gemma({"model.attn_logit_softcapping=50", "model.final_logit_softcapping=30"}), "gemma2");
  EXPECT_EQ(of_gemma({norm, local}), "gemma3_text");
  EXPECT_EQ(of_gemma({norm, "model.attention_multiplier=0.125"}), "gemma3_text");
  EXPECT_TRUE(test::has_facts(of_gemma({norm, "model.attention_multiplier=0.3"}),
                              {"gemma3_text", "model.attention_multiplier: 0.3"}));
  EXPECT_TRUE(
      test::has_facts(of_gemma({norm}, "one_plus", "15.9"), {"gemma3_text", "model.embedding_multiplier: 15.9"}));
  EXPECT_TRUE(test::has_facts(of_gemma({}, "plain"), {"gemma2", "model.norm_weight: plain"}));
  EXPECT_TRUE(
      test::has_facts(type({"model.final_logit_softcapping=30"}), {"llama", "model.final_logit_softcapping: 30"}));
  EXPECT_EQ(type({window, "model.mlp_bias=true"}), "smollm3") << "whose layers may all have RoPE";
}

TEST(Families, NoneNamesTheKeysInTheWayOfTheNearest) {
  EXPECT_TRUE(test::has_facts(type({"model.qk_norm=true", "model.mlp_bias=true"}),
                              {"no model type", "llama", "model.qk_norm: true"}));
  EXPECT_TRUE(test::has_facts(type({"model.attention_out_bias=true"}),
                              {"no model type", "llama", "model.attention_out_bias: true"}));
  EXPECT_TRUE(test::has_facts(type({"model.qk_norm=true", "model.no_rope_layers=2", "model.attention_bias=true"}),
                              {"qwen3", "model.no_rope_layers: 2"}));
}

TEST(Families, HaveTheirOwnModelTypesAndKnownSwitches) {
  std::set<std::string> types, switches;
  for (const FamilySwitch& each : family_switches()) switches.insert(each.name);
  for (const Family& family : families()) {
    EXPECT_TRUE(types.insert(family.model_type).second) << family.model_type;
    for (const auto* list : {&family.reads, &family.on})
      for (const std::string& name : *list) EXPECT_TRUE(switches.count(name)) << name;
  }
}

}  // namespace
}  // namespace llmc::spec
