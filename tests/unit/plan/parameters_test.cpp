// Layout of parameters in the flat buffers.
#include "compiler/plan/parameters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "small_spec.h"
#include "spec/length/token_budget.h"

namespace llmc::plan {
namespace {

Plan planned(const std::vector<std::string>& overrides) { return make_plan(small_spec(overrides).spec); }

TEST(Parameters, EveryTensorOfACheckpointOnce) {
  const Plan plan = planned({});
  std::set<std::string> names;
  for (const Slice& s : plan.parameters.slices) EXPECT_TRUE(names.insert(s.name).second) << s.name;
  EXPECT_EQ(names.size(), 3u + 3u * 16u);  // embedding, final norm, head; 7 matrices, 7 biases, 2 norms per layer
  for (const char* name :
       {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight", "model.layers.2.mlp.down_proj.bias",
        "model.layers.0.self_attn.k_proj.bias", "model.layers.1.input_layernorm.weight"})
    EXPECT_TRUE(names.count(name)) << name;
  EXPECT_EQ(planned({"model.tie_word_embeddings=true"}).parameters.slices.size(), names.size() - 1);
}

TEST(Parameters, AreAsManyAsTheirSizesSay) {
  const std::vector<std::vector<std::string>> models = {
      {},
      {"model.tie_word_embeddings=true"},
      {"model.attention_bias=false", "model.mlp_bias=false"},
      {"model.attention_bias=true", "model.attention_out_bias=false", "model.mlp_bias=false"},
      {"model.attention_bias=false", "model.attention_out_bias=true", "model.mlp_bias=false"},
      {"model.qk_norm=true"},
      {"model.attention_bias=false", "model.qk_norm=true", "model.qk_norm_over=width"},
      {"model.attention_bias=false", "model.mlp_bias=false", "model.norm_place=post"},
      {"model.attention_bias=false", "model.mlp_bias=false", "model.norm_place=sandwich"},
      {"model.norm_weight=one_plus"},
      {"model.norm_weight=none"},
      {"model.norm_weight=none", "model.qk_norm=true"},
      {"model.mlp_gated=false", "model.mlp_bias=true"},
      {"model.embedding_norm=true", "model.mlp_gated=false", "model.mlp_bias=false"}};
  for (const std::vector<std::string>& model : models) {
    const Plan plan = planned(model);
    EXPECT_EQ(spec::parameter_count(plan.spec.model), plan.parameters.logical) << (model.empty() ? "" : model.back());
  }
}

TEST(Parameters, AModelWithoutVectorsHasNoMastersBesideSplitOnes) {
  const Plan plan = planned({"model.norm_weight=none", "model.attention_bias=false", "model.mlp_bias=false",
                             "precision.compute=bf16", "precision.master=split"});
  for (const graph::Tensor& t : plan.graph.tensors)
    if (t.use == Use::masters) {
      EXPECT_EQ(t.cols, 0);
    }
  EXPECT_LT(plan.layout.bytes, std::size_t{1} << 30);
}

TEST(Parameters, SlicesAreApartAndInOrder) {
  for (const char* compute : {"fp32", "bf16"}) {
    const Plan plan = planned({std::string("precision.compute=") + compute});
    // Vectors first, then matrices; each in checkpoint order.
    std::int64_t vectors = 0, matrices = 0, logical = 0;
    for (const Slice& s : plan.parameters.slices) {
      std::int64_t& end = s.matrix ? matrices : vectors;
      EXPECT_GE(s.offset, end) << s.name;
      EXPECT_GE(s.pitch, s.cols) << s.name;
      end = s.offset + (s.rows - 1) * s.pitch + s.cols;
      logical += s.rows * s.cols;
    }
    EXPECT_LE(vectors, plan.parameters.buckets[1].offset);
    EXPECT_LE(matrices, plan.parameters.elements);
    EXPECT_EQ(logical, plan.parameters.logical);
  }
}

TEST(Parameters, EachStartsAt256Bytes) {
  for (const auto& [compute, bytes] : {std::pair{"fp32", 4}, std::pair{"bf16", 2}}) {
    const Plan plan = planned({std::string("precision.compute=") + compute});
    for (const auto& [id, offset] : plan.parameters.offset)
      EXPECT_EQ(offset * bytes % 256, 0) << plan.graph.at(id).name;
    EXPECT_EQ(plan.parameters.layer_stride * bytes % 256, 0);
  }
}

TEST(Parameters, LayersAreOneStrideApart) {
  const Plan plan = planned({});
  const auto offset = [&](const std::string& name) {
    const auto& all = plan.parameters.slices;
    return std::find_if(all.begin(), all.end(), [&](const Slice& s) { return s.name == name; })->offset;
  };
  for (const char* part :
       {"self_attn.v_proj.weight", "mlp.up_proj.weight", "post_attention_layernorm.weight", "mlp.up_proj.bias"})
    for (int layer = 1; layer < 3; ++layer)
      EXPECT_EQ(
          offset("model.layers." + std::to_string(layer) + "." + part) - offset(std::string("model.layers.0.") + part),
          layer * (std::string(part).ends_with("proj.weight") ? plan.parameters.layer_stride
                                                              : plan.parameters.vector_stride));
}

TEST(Parameters, EveryBucketHasItsBlocksMatricesOrAllVectors) {
  const Plan plan = planned({});
  const ParameterLayout& p = plan.parameters;
  ASSERT_EQ(p.buckets.size(), 6u);  // vectors, embedding, three layers, head
  for (std::size_t i = 0; i + 1 < p.buckets.size(); ++i)
    EXPECT_LE(p.buckets[i].offset + p.buckets[i].elements + share_gap(kShareUnit), p.buckets[i + 1].offset);
  EXPECT_LE(p.buckets.back().offset + p.buckets.back().elements + share_gap(kShareUnit), p.elements);
  for (const Slice& s : p.slices) {
    std::size_t bucket = 0;
    if (s.matrix)
      bucket = s.name.starts_with("model.layers.") ? static_cast<std::size_t>(2 + s.name[13] - '0')
                                                   : (s.name == "lm_head.weight" ? 5 : 1);
    EXPECT_GE(s.offset, p.buckets[bucket].offset) << s.name;
    EXPECT_LE(s.offset + s.rows * s.pitch, p.buckets[bucket].offset + p.buckets[bucket].elements) << s.name;
  }
  EXPECT_EQ(planned({"model.tie_word_embeddings=true"}).parameters.buckets.size(), 5u);
}

TEST(Parameters, RolesFollowFromNames) {
  const Plan plan = planned({});
  for (const Slice& s : plan.parameters.slices) {
    const bool norm_or_bias = s.name.find("norm") != std::string::npos || s.name.find("bias") != std::string::npos;
    const bool embedding = s.name == "model.embed_tokens.weight";
    const ParameterRole role = norm_or_bias                 ? ParameterRole::vectors
                               : embedding                  ? ParameterRole::embedding
                               : s.name == "lm_head.weight" ? ParameterRole::head
                                                            : ParameterRole::matrices;
    EXPECT_EQ(plan.graph.groups.at(static_cast<std::size_t>(s.group)).role, role) << s.name;
    EXPECT_EQ(s.init_value, s.name.find("norm") != std::string::npos ? 1 : 0) << s.name;
  }
}

/// Expected standard deviation of a slice's initial weights, by its name.
double expected_std(const std::string& name, double embedding, double into, double out_of_attention,
                    double out_of_mlp) {
  const auto ends = [&](const char* end) { return name.ends_with(end); };
  if (name == "model.embed_tokens.weight" || name == "lm_head.weight") return embedding;
  if (ends("o_proj.weight")) return out_of_attention;
  if (ends("down_proj.weight")) return out_of_mlp;
  if (ends("norm.weight") || ends(".bias")) return 0;
  return into;  // reads the residual stream's 36 columns
}

TEST(Parameters, InitialWeightsHaveTheStdOfTheirRule) {
  // depth_scaled: 1 / sqrt(2 * layers * hidden_size) like GPT-2, for two additions to the stream per layer.
  for (const Slice& s : planned({}).parameters.slices)
    EXPECT_NEAR(
        s.init_std,
        expected_std(s.name, 0.02, 1 / std::sqrt(36.0), 1 / std::sqrt(2 * 3 * 36.0), 1 / std::sqrt(2 * 3 * 36.0)),
        1e-12)
        << s.name;
  for (const Slice& s :
       planned({"model.num_hidden_layers=7", "init.embedding_std=0.5", "init.linear=0.125"}).parameters.slices)
    EXPECT_NEAR(s.init_std, expected_std(s.name, 0.5, 0.125, 1 / std::sqrt(2 * 7 * 36.0), 1 / std::sqrt(2 * 7 * 36.0)),
                1e-12)
        << s.name;
  // fan_in of the outputs of 6 heads of 10, and of 50 columns.
  for (const Slice& s : planned({"init.residual=fan_in"}).parameters.slices)
    EXPECT_NEAR(s.init_std, expected_std(s.name, 0.02, 1 / std::sqrt(36.0), 1 / std::sqrt(60.0), 1 / std::sqrt(50.0)),
                1e-12)
        << s.name;
  for (const Slice& s : planned({"init.residual=0.25", "init.linear=depth_scaled"}).parameters.slices)
    EXPECT_NEAR(s.init_std, expected_std(s.name, 0.02, 1 / std::sqrt(2 * 3 * 36.0), 0.25, 0.25), 1e-12) << s.name;
}

TEST(Parameters, UpStartsInItsPaddedHalf) {
  const Plan plan = planned({});
  const auto& all = plan.parameters.slices;
  const auto find = [&](const char* name) {
    return std::find_if(all.begin(), all.end(), [&](const Slice& s) { return s.name == name; });
  };
  const auto gate = find("model.layers.0.mlp.gate_proj.weight"), up = find("model.layers.0.mlp.up_proj.weight");
  EXPECT_EQ(up->offset - gate->offset, 56 * gate->pitch);  // 50 rows, padded to a multiple of 8
}

TEST(Parameters, NormsOfHeadsArePaddedEachOnItsOwn) {
  const Plan plan = planned({"model.qk_norm=true", "model.mlp_bias=false"});  // heads of 10 in bf16
  const auto& all = plan.parameters.slices;
  const auto find = [&](const char* name) {
    return *std::find_if(all.begin(), all.end(), [&](const Slice& s) { return s.name == name; });
  };
  const Slice q = find("model.layers.2.self_attn.q_norm.weight"), k = find("model.layers.2.self_attn.k_norm.weight");
  EXPECT_EQ(k.offset - q.offset, 16);
  for (const Slice& s : {q, k}) {
    EXPECT_EQ(s.cols, 10) << s.name;
    EXPECT_EQ(s.init_value, 1) << s.name;
    EXPECT_EQ(plan.graph.groups.at(static_cast<std::size_t>(s.group)).role, ParameterRole::vectors) << s.name;
  }
}

TEST(Parameters, NamedMatricesBeginAsZeros) {
  const Plan plan = planned({"init.zero=[down_proj]", "init.residual=0.25"});
  int zeros = 0, others = 0;
  for (const Slice& s : plan.parameters.slices) {
    const bool down = s.name.ends_with("down_proj.weight"), o = s.name.ends_with("o_proj.weight");
    if (!down && !o) continue;
    EXPECT_EQ(s.init_std, down ? 0 : 0.25) << s.name;
    EXPECT_EQ(s.init_value, 0) << s.name;
    ++(down ? zeros : others);
  }
  EXPECT_EQ(zeros, others);
  EXPECT_GT(zeros, 0);
}

}  // namespace
}  // namespace llmc::plan
