// Two optimizers in one run: an update of each, its scalars, its state, and where that lies.
#include <gtest/gtest.h>

#include <algorithm>

#include "../facts.h"
#include "compiler/graph/llama.h"
#include "compiler/ops/update.h"
#include "compiler/passes/check_graph.h"
#include "compiler/passes/passes.h"
#include "compiler/plan/parameters.h"
#include "compiler/plan/plan.h"
#include "small_spec.h"

namespace llmc::plan {
namespace {

using namespace graph;

constexpr GroupSet kMatrices = 0b0001, kOthers = 0b1110;

/// The small model's optimizer step where Lion updates the matrices of layers and AdamW the rest.
struct Mixed {
  spec::Spec spec;
  Graph graph;
  ParameterLayout layout;

  explicit Mixed(const std::vector<std::string>& overrides = {}) : spec(small_spec(overrides).spec) {
    graph = build_llama(spec, kinds_of(spec), 1);
    graph.groups[0].optimizer = OptimizerKind::lion;
    graph = passes::shard_over_ranks(passes::append_optimizer(std::move(graph), spec), spec);
    layout = lay_out_parameters(graph, spec);
    size_flat(graph, layout);
  }

  const Region& region() { return graph.region(Block::none, Part::optimizer); }
  const Op& op(const std::string& name) {
    const auto& ops = region().ops;
    return *std::ranges::find_if(ops, [&](const Op& op) { return op.name == name; });
  }
  const Tensor& state(const std::string& name) {
    return *std::ranges::find_if(graph.tensors, [&](const Tensor& t) { return t.name == name; });
  }
  ops::Work work(const std::string& name) {
    const ops::AttentionChoices none;
    return ops::row_of(op(name).kind).work({{graph, region(), op(name)}, spec, layout, none, 1}).at(0);
  }
};

TEST(Optimizers, EachHasAnUpdateOfItsGroups) {
  Mixed mixed({"metrics.per_parameter=true", "parallel.shard=optimizer"});
  std::string ops;
  for (const Op& op : mixed.region().ops) ops += op.name + " ";
  EXPECT_EQ(ops,
            "gradient_norm sum_gradient_partial sum_results gradient_clip lion adamw sum_weight_partial "
            "sum_update_partial parameter_norms ")
      << "sums over chunks are added over the ranks when all are there";
  EXPECT_EQ(mixed.op("lion").as<ops::UpdateAttributes>().groups, kMatrices);
  EXPECT_EQ(mixed.op("adamw").as<ops::UpdateAttributes>().groups, kOthers);
  EXPECT_EQ(mixed.op("lion").as<ops::UpdateAttributes>().text(), "norms groups=0b1");
  std::vector<std::string> records;
  for (const Tensor& t : mixed.graph.tensors)
    if (t.use == Use::optimizer_scalars) records.emplace_back(t.record);
  EXPECT_EQ(records, (std::vector<std::string>{"LionScalars", "AdamwScalars"})) << "in the order of optimizers_of()";
}

TEST(Optimizers, EachKeepsStateForItsBucketsAlone) {
  Mixed mixed;
  const auto& buckets = mixed.layout.buckets;
  ASSERT_EQ(buckets.size(), 3u + 3u);  // vectors, embedding, head; three layers
  EXPECT_EQ(mixed.layout.first_bucket.at(Block::layer), 3u) << "behind all of AdamW's";
  EXPECT_EQ(mixed.state("momentum").cols, mixed.layout.elements - buckets[3].offset);
  EXPECT_EQ(mixed.state("exp_avg").cols, buckets[3].offset);
  EXPECT_EQ(mixed.state("exp_avg_sq").cols, buckets[3].offset);
  for (const int ranks : {1, 2, 3}) {
    const Shares shares(buckets, DataRank{0, ranks});
    EXPECT_EQ(mixed.layout.state_elements(shares, 1, kMatrices) + shares.begin_of(3), shares.state_elements());
    EXPECT_EQ(mixed.layout.state_elements(shares, 64, kMatrices),
              (mixed.layout.state_elements(shares, 1, kMatrices) + 63) / 64);
  }
  Mixed alone;
  alone.graph.groups[0].optimizer = {};
  EXPECT_EQ(lay_out_parameters(alone.graph, alone.spec).first_bucket.at(Block::layer), 2u) << "as a pass reads them";
}

TEST(Optimizers, AKernelIsToldItsGroupsAndWhereItsStateBegins) {
  Mixed mixed;
  const auto text = [](const ops::Work& work) {
    std::string text;
    for (const ops::Argument& a : work.arguments)
      if (a.tensor == kNone) text += a.text + "; ";
    for (const ops::KernelParam& p : work.kernel.params)
      if (p.name == "kGroups") text += p.name + " = " + p.value + (p.said ? "" : ", unsaid");
    return text;
  };
  EXPECT_EQ(text(mixed.work("lion")), "momentum - s.shares.begin_of(3); nullptr; 0; kChunkCount; kGroups = 1");
  EXPECT_EQ(text(mixed.work("adamw")), "nullptr; 0; kChunkCount; kGroups = 14");
  double all = 0;
  for (const Slice& slice : mixed.layout.slices) all += static_cast<double>(slice.rows * slice.pitch);
  EXPECT_EQ(mixed.work("lion").flops / 11 + mixed.work("adamw").flops / 15, all) << "each element has one update";
}

TEST(Optimizers, BlocksOfStateBeginWithParametersAndShares) {
  const auto with_blocks = [](const std::vector<std::string>& overrides) {
    Mixed mixed(overrides);
    for (Tensor& t : mixed.graph.tensors)
      if (t.name == "momentum") t.state_block = 512;
    return mixed;
  };
  Mixed mixed = with_blocks({"model.hidden_size=64", "model.head_dim=16", "model.intermediate_size=64"});
  const ParameterLayout layout = lay_out_parameters(mixed.graph, mixed.spec);
  EXPECT_EQ(layout.share_unit, 512);
  for (const Slice& slice : layout.slices) EXPECT_TRUE(slice.group != 0 || slice.offset % 512 == 0) << slice.name;
  for (const Bucket& bucket : layout.buckets) EXPECT_TRUE(bucket.offset % 512 == 0 && bucket.elements % 512 == 0);
  for (std::size_t i = 0; i + 1 < layout.buckets.size(); ++i)
    EXPECT_LE(layout.buckets[i].offset + layout.buckets[i].elements + share_gap(512), layout.buckets[i + 1].offset);
  size_flat(mixed.graph, layout);
  EXPECT_EQ(mixed.state("momentum").cols, (layout.elements - layout.buckets[3].offset) / 512);
  // k is the second part of q, k and v, and begins within a block; rows of 36 are padded.
  const Mixed odd = with_blocks({});
  EXPECT_THROW(lay_out_parameters(odd.graph, odd.spec), Failure);
}

std::string report_of(const Plan& plan) {
  for (const Section& section : plan.layout.sections)
    if (section.name == "optimizer state") return section.what;
  return "";
}

/// Names of the tensors of layer 0, and of none, whose state has blocks; "-" and the names of the others' groups.
std::string int8_tensors(const std::vector<std::string>& overrides) {
  std::vector<std::string> all = {"precision.optimizer_state=int8", "memory.loss_chunk=auto"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  const Plan plan = make_plan(small_spec(all).spec);
  std::string names;
  for (const Slice& slice : plan.parameters.slices) {
    const std::optional<OptimizerKind> optimizer =
        plan.graph.groups.at(static_cast<std::size_t>(slice.group)).optimizer;
    if (optimizer != OptimizerKind::adamw_int8 || slice.name.starts_with("model.layers.1") ||
        slice.name.starts_with("model.layers.2"))
      continue;
    names += slice.name.substr(slice.name.rfind('.', slice.name.rfind('.') - 1) + 1) + " ";
  }
  for (const ParameterGroup& group : plan.graph.groups)
    if (group.optimizer == OptimizerKind::adamw) names += std::string("- ") + group.name;
  return names;
}

TEST(OptimizerState, Int8IsForMatricesOfWholeBlocks) {
  const auto with = [&](std::vector<std::string> more, int intermediate = 64, int vocabulary = 64) {
    for (const char* wide : {"model.hidden_size=64", "model.num_attention_heads=4", "model.head_dim=16"})
      more.emplace_back(wide);
    more.push_back(fmt::format("model.intermediate_size={}", intermediate));
    more.push_back(fmt::format("model.vocab_size={}", vocabulary));
    return int8_tensors(more);
  };
  // k and v have 32 * 64 elements.
  const std::string all =
      "q_proj.weight o_proj.weight gate_proj.weight up_proj.weight down_proj.weight lm_head.weight ";
  EXPECT_EQ(with({}), all + "- matrices, state in fp32");
  EXPECT_EQ(with({"model.num_key_value_heads=4"}), "q_proj.weight k_proj.weight v_proj.weight " + all.substr(14));
  EXPECT_EQ(
      with({"model.num_key_value_heads=4", "model.tie_word_embeddings=true"}),
      "q_proj.weight k_proj.weight v_proj.weight o_proj.weight gate_proj.weight up_proj.weight down_proj.weight ");
  // Rows of down are padded; up begins within a block.
  EXPECT_EQ(with({"model.num_key_value_heads=4"}, 66),
            "q_proj.weight k_proj.weight v_proj.weight o_proj.weight gate_proj.weight lm_head.weight "
            "- matrices, state in fp32");
  EXPECT_EQ(
      with({"model.num_key_value_heads=4"}, 64, 63),
      "q_proj.weight k_proj.weight v_proj.weight o_proj.weight gate_proj.weight up_proj.weight down_proj.weight ");
  EXPECT_EQ(int8_tensors({}), "") << "the small spec has no large tensor";
}

TEST(OptimizerState, Int8TakesEighteenBytesOfTrafficAndTwoOfMemory) {
  const std::vector<std::string> sizes = {"precision.optimizer_state=int8", "model.hidden_size=256",
                                          "model.intermediate_size=1024",   "model.num_attention_heads=8",
                                          "model.num_key_value_heads=8",    "model.head_dim=32",
                                          "model.vocab_size=256",           "metrics.per_parameter=false"};
  const Plan plan = make_plan(small_spec(sizes).spec);
  double matrices = 0, vectors = 0;
  for (const Slice& slice : plan.parameters.slices)
    (plan.graph.groups[static_cast<std::size_t>(slice.group)].optimizer ? matrices : vectors) +=
        static_cast<double>(slice.rows * slice.pitch);
  double traffic = 0, others = 0, memory = 0;
  for (const Launch& l : plan.launches) {
    if (l.op == "adamw_int8") traffic += l.bytes;
    if (l.op == "adamw") others += l.bytes;
  }
  for (const HostBuffer& buffer : plan.layout.buffers)
    if (buffer.use == Use::state && buffer.name != "exp_avg" && buffer.name != "exp_avg_sq")
      memory += static_cast<double>(buffer.bytes());
  EXPECT_EQ(traffic, (18 + 4.0 * 4 / 256) * matrices);
  EXPECT_EQ(others, 30 * vectors);
  // Between the head's and the layers' buckets lie gaps, so that any number of ranks has shares of whole blocks.
  const double gaps = 4.0 * static_cast<double>(share_gap(256));
  EXPECT_GE(memory, (2 + 2.0 * 4 / 256) * matrices);
  EXPECT_LE(memory, (2 + 2.0 * 4 / 256) * (matrices + gaps));
  const std::string text = report_of(plan);
  EXPECT_TRUE(test::has_facts(
      text, {"blocks of 256", "int8", "matrices (21 tensors)", "head (1 tensor)", "fp32", "embedding (1 tensor)"}))
      << text;
}

}  // namespace
}  // namespace llmc::plan
