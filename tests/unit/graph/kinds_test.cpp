// Layers of several kinds after all passes, on the small spec.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "by_name.h"
#include "compiler/ops/graph_text.h"
#include "compiler/ops/op.h"
#include "compiler/passes/passes.h"
#include "small_graph.h"

namespace llmc::passes {
namespace {

using namespace graph;

const std::vector<std::string> kTwoKinds = {"model.attention_bias=false", "model.mlp_bias=false",
                                            "model.sliding_window=7",
                                            "model.layer_types=[sliding_attention, full_attention]"};

/// Sliding windows of a region's attention ops.
std::set<int> windows(const Region& region) {
  std::set<int> found;
  for (const Op& op : region.ops)
    if (const auto* attention = std::get_if<ops::AttentionAttributes>(&op.attributes)) found.insert(attention->window);
  return found;
}

TEST(Passes, AVariantIsAKindAndWhatIsRecomputed) {
  std::vector<std::string> overrides = kTwoKinds;
  overrides.insert(overrides.end(), {"model.num_hidden_layers=5", "memory.recompute={layers: {0-2: [attention]}}"});
  Graph graph = lowered(overrides);
  EXPECT_EQ(graph.variants, (std::vector<int>{0, 1, 0, 2, 3}));
  const int expected[] = {7, 0, 0, 7};
  for (int variant = 0; variant < 4; ++variant)
    for (const Part part : {Part::forward, Part::backward}) {
      const Region& region = *graph.find(part, Block::layer, variant);
      EXPECT_EQ(windows(region), std::set<int>{expected[variant]}) << region.name;
      EXPECT_EQ(graph.layers_of(region), variant == 0 ? 2 : 1) << region.name;
    }
}

/// Whether the heads of q and k are rotated, by the region's ops.
std::set<bool> rotations(const Region& region) {
  std::set<bool> found;
  for (const Op& op : region.ops) {
    if (const auto* rope = std::get_if<ops::RopeAttributes>(&op.attributes)) found.insert(rope->rotates);
    if (const auto* norm = std::get_if<ops::QkNormRopeAttributes>(&op.attributes)) found.insert(norm->rotates);
    if (const auto* norm = std::get_if<ops::QkNormRopeBackwardAttributes>(&op.attributes)) found.insert(norm->rotates);
  }
  return found;
}

TEST(Passes, LayersWithoutRopeAreAKind) {
  for (const char* norm : {"model.qk_norm=false", "model.qk_norm=true"}) {
    const Graph graph = lowered({norm, "model.no_rope_layers=2", "model.num_hidden_layers=4",
                                 "memory.recompute=[norms, qkv]", "audit.compute=forward", "audit.every=1"});
    EXPECT_EQ(graph.variants, (std::vector<int>{0, 1, 0, 1}));
    for (int variant = 0; variant < 2; ++variant)
      for (const Part part : {Part::forward, Part::backward, Part::audit})
        EXPECT_EQ(rotations(*graph.find(part, Block::layer, variant)), std::set<bool>{variant == 0}) << norm;
  }
}

/// Uses of the RoPE tables that the region's ops read.
std::set<Use> tables(const Graph& graph, const Region& region) {
  std::set<Use> found;
  for (const Op& op : region.ops)
    for (const TensorId id : op.inputs)
      if (graph.at(id).role == Role::constant) found.insert(graph.at(id).use);
  return found;
}

TEST(Passes, SlidingLayersMayHaveAnglesOfTheirOwn) {
  std::vector<std::string> overrides = kTwoKinds;
  overrides.insert(overrides.end(), {"model.num_hidden_layers=4", "audit.compute=forward", "audit.every=1"});
  EXPECT_EQ(ops::to_text(lowered(overrides)).find("local_rope_table"), std::string::npos);
  for (const char* norm : {"model.qk_norm=false", "model.qk_norm=true"}) {
    std::vector<std::string> own = overrides;
    own.insert(own.end(), {norm, "model.rope_local_theta=777"});
    const Graph graph = lowered(own);
    EXPECT_EQ(graph.variants, (std::vector<int>{0, 1, 0, 1}));
    for (const Part part : {Part::forward, Part::backward, Part::audit}) {
      EXPECT_EQ(tables(graph, *graph.find(part, Block::layer, 0)), std::set<Use>{Use::local_rope_table}) << norm;
      EXPECT_EQ(tables(graph, *graph.find(part, Block::layer, 1)), std::set<Use>{Use::rope_table}) << norm;
    }
  }
  // Without a window that is shorter than the sequence the layers still have two kinds.
  overrides[2] = "model.sliding_window=24", overrides.emplace_back("model.rope_local_theta=777");
  EXPECT_EQ(lowered(overrides).variants, (std::vector<int>{0, 1, 0, 1}));
}

TEST(Passes, PartsOfHeadsAndNeighboursAreRotatedByAnOpOfTheirOwn) {
  const auto text_of = [](const std::vector<std::string>& more) {
    std::vector<std::string> overrides = {"model.qk_norm=true"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return ops::to_text(lowered(overrides));
  };
  const auto first = [](const std::string& text, const char* word) { return text.find(word); };
  EXPECT_EQ(text_of({}).find(" rope("), std::string::npos);
  for (const char* key : {"model.partial_rotary_factor=0.2", "model.rope_interleaved=true"}) {
    const std::string before = text_of({key}), after = text_of({key, "model.qk_norm_place=after_rope"});
    for (const std::string& text : {before, after}) {
      EXPECT_NE(text.find(" alone"), std::string::npos) << text;
      EXPECT_NE(text.find("%ones"), std::string::npos);
    }
    EXPECT_LT(first(before, "%qkv_normed"), first(before, "%rope_table, ")) << before;
    EXPECT_NE(after.find("%qkv_rotated"), std::string::npos);
  }
}

TEST(Passes, QIsScaledPastTheOriginalContextAlone) {
  const auto text_of = [](const std::string& original, const std::string& norm) {
    return ops::to_text(
        lowered({"model.rope_scaling={type: yarn, llama_4_scaling_beta: 0.5, "
                 "original_max_position_embeddings: " +
                     original + "}",
                 norm}));
  };
  for (const char* norm : {"model.qk_norm=false", "model.qk_norm=true"}) {
    EXPECT_NE(text_of("5", norm).find(" q by 0.5 past 5"), std::string::npos) << norm;
    EXPECT_EQ(text_of("24", norm).find(" q by "), std::string::npos) << "of a sequence of 24";
  }
}

TEST(Passes, TheOutputsBiasIsAKeyOfItsOwn) {
  const auto biases = [](const std::vector<std::string>& overrides) {
    const Graph graph = lowered(overrides);
    std::string names;
    for (const Tensor& t : graph.tensors)
      for (const ParameterPiece& piece : t.pieces)
        if (piece.name.find("self_attn") != std::string::npos && piece.name.ends_with(".bias"))
          names += piece.name.substr(std::string("self_attn.").size()) + " ";
    return names;
  };
  EXPECT_EQ(biases({"model.attention_bias=true", "model.attention_out_bias=false"}),
            "q_proj.bias k_proj.bias v_proj.bias ");
  EXPECT_EQ(biases({"model.attention_bias=false", "model.attention_out_bias=true"}), "o_proj.bias ");
  EXPECT_EQ(biases({"model.attention_bias=true"}), "q_proj.bias k_proj.bias v_proj.bias o_proj.bias ");
}

/// Scale of each product and embedding, forward and backward, by name.
std::map<std::string, double> scales(const Graph& graph) {
  std::map<std::string, double> found;
  for (const Region& region : graph.regions)
    for (const Op& op : region.ops) {
      if (const auto* linear = std::get_if<ops::LinearAttributes>(&op.attributes)) found[op.name] = linear->scale;
      if (std::holds_alternative<ops::ScaleAttributes>(op.attributes)) found[op.name] = ops::scale_of(op);
    }
  return found;
}

TEST(Passes, MultipliersAreInBothPasses) {
  const std::vector<std::string> overrides = {"model.attention_bias=false",      "model.mlp_bias=false",
                                              "model.attention_multiplier=0.25", "model.embedding_multiplier=12",
                                              "model.residual_multiplier=0.5",   "model.logits_scaling=8"};
  const Graph graph = lowered(overrides);
  const auto found = scales(graph);
  for (const char* name : {"embed", "embed_backward"}) EXPECT_EQ(found.at(name), 12) << name;
  for (const char* name : {"o", "o_dgrad", "o_wgrad", "down", "down_dgrad", "down_wgrad"})
    EXPECT_EQ(found.at(name), 0.5) << name;
  for (const char* name : {"lm_head", "lm_head_dgrad", "lm_head_wgrad"}) EXPECT_EQ(found.at(name), 0.125) << name;
  for (const char* name : {"qkv", "qkv_dgrad", "gate_up", "gate_up_wgrad"}) EXPECT_EQ(found.at(name), 1) << name;
  for (const Region& region : graph.regions)
    for (const Op& op : region.ops)
      if (const auto* attention = std::get_if<ops::AttentionAttributes>(&op.attributes)) {
        EXPECT_EQ(attention->scale(), 0.25) << op.name;
      }
  EXPECT_EQ(ops::to_text(lowered({"model.logits_scaling=1"})), ops::to_text(lowered()));
}

TEST(Passes, TheAuditsPassHasARegionOfEachKind) {
  std::vector<std::string> overrides = kTwoKinds;
  overrides.insert(overrides.end(), {"audit.compute=forward", "audit.every=1", "memory.recompute={every: 3}"});
  const Graph graph = lowered(overrides);
  EXPECT_EQ(graph.variants, (std::vector<int>{0, 1, 2}));
  const int expected[] = {7, 0, 7};
  for (int variant = 0; variant < 3; ++variant)
    EXPECT_EQ(windows(*graph.find(Part::audit, Block::layer, variant)), std::set<int>{expected[variant]});
  EXPECT_EQ(graph.find(Part::audit, Block::layer, 0), graph.find(Part::audit, Block::layer, 2));
}

TEST(Passes, KindsThatAreEqualAreOne) {
  std::vector<std::string> overrides = kTwoKinds;
  overrides[2] = "model.sliding_window=24";  // equals the sequence length
  const std::vector<std::string> plain(kTwoKinds.begin(), kTwoKinds.begin() + 2);
  EXPECT_EQ(ops::to_text(lowered(overrides)), ops::to_text(lowered(plain)));
  overrides[2] = "model.sliding_window=23";
  EXPECT_NE(ops::to_text(lowered(overrides)), ops::to_text(lowered(plain)));
}

}  // namespace
}  // namespace llmc::passes
