// Two optimizers in one run: an update of each, its scalars, its state, and where that lies.
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/graph/llama.h"
#include "compiler/ops/update.h"
#include "compiler/passes/check_graph.h"
#include "compiler/passes/passes.h"
#include "compiler/plan/parameters.h"
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
  const double all = static_cast<double>(mixed.layout.in_buckets);
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

}  // namespace
}  // namespace llmc::plan
