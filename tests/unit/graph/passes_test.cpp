// Properties of individual passes, on the small spec.
#include "compiler/passes/passes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "by_name.h"
#include "compiler/graph/llama.h"
#include "compiler/ops/graph_text.h"
#include "compiler/ops/op.h"
#include "compiler/ops/update.h"
#include "compiler/passes/pipeline.h"
#include "small_graph.h"

namespace llmc::passes {
namespace {

using namespace graph;

std::set<std::string> saved(Graph& graph, const std::string& name) {
  std::set<std::string> names;
  for (TensorId id : region(graph, name).saved) names.insert(graph.at(id).name);
  return names;
}

TEST(Passes, NoAddIsLeft) {
  for (const char* recompute : {"none", "full"}) {
    const Graph graph = lowered({std::string("memory.recompute=") + recompute});
    for (const Region& region : graph.regions)
      for (const Op& op : region.ops) EXPECT_NE(op.kind, OpKind::add) << region.name << ": " << op.name;
  }
}

std::string ops_of(const Graph& g, Part part, Block block) {
  std::string text;
  for (const Op& op : g.find(part, block)->ops)
    text += op.name + "(" + std::visit([](const auto& of) { return of.text(); }, op.attributes) + ") ";
  return text;
}

TEST(Passes, TheZLossIsTrainedOnAndReported) {
  const Graph with = lowered({"loss.z=0.001", "parallel.world_size=2"}), without = lowered({"loss.z=0"});
  EXPECT_EQ(with.reports, std::vector<std::string>{"z_loss"});
  EXPECT_EQ(with.at(with.host(Use::reports)).bytes(), 8);
  EXPECT_EQ(without.reports, std::vector<std::string>());
  EXPECT_THROW(without.host(Use::reports), Failure);
  EXPECT_NE(ops_of(with, Part::loss, Block::head).find("cross_entropy(gradient z=0.001)"), std::string::npos);
  EXPECT_NE(ops_of(without, Part::loss, Block::head).find("cross_entropy(gradient)"), std::string::npos);
  EXPECT_EQ(ops_of(with, Part::backward, Block::head).find("loss_sum() z_loss(z=0.001 report=0) "), 0u);
  // Evaluation reports the loss alone.
  EXPECT_NE(ops_of(with, Part::evaluate, Block::head).find("cross_entropy()"), std::string::npos);
  const Region& optimizer = *with.find(Part::optimizer, Block::none);
  const auto sum = std::ranges::find(optimizer.ops, OpKind::sum_results, &Op::kind);
  ASSERT_NE(sum, optimizer.ops.end());
  EXPECT_EQ(sum->inputs, (std::vector<TensorId>{with.host(Use::results), with.host(Use::reports)}));
}

TEST(Passes, StatisticsAndGradientsOfWeightsStayFp32) {
  Graph graph = lowered();
  for (const char* name : {"attention_norm_rstd", "attention_lse", "losses"})
    EXPECT_EQ(graph.at(find(graph, name)).dtype, DType::f32) << name;
  for (const char* name : {"qkv", "gate_up_out", "swiglu_out", "logits", "attention_out"})
    EXPECT_EQ(graph.at(find(graph, name)).dtype, DType::bf16) << name;
  for (const Tensor& t : graph.tensors)
    if (t.role == Role::gradient || t.role == Role::parameter) {
      EXPECT_EQ(t.dtype, DType::f32) << t.name;
    }
}

/// Dtypes of the stream between layers and at the head, within a layer, and of its gradient.
std::vector<DType> stream(const std::vector<std::string>& overrides) {
  const Graph g = lowered(overrides);
  std::vector<DType> types;
  for (TensorId id : {g.stream.first, g.stream.below, find(g, "x_mid"), g.stream.above, g.stream.last, g.dstream.below})
    types.push_back(g.at(id).dtype);
  return types;
}

TEST(Passes, TheResidualStreamHasItsOwnDtype) {
  constexpr DType f32 = DType::f32, bf16 = DType::bf16;
  EXPECT_EQ(stream({}), (std::vector<DType>{f32, f32, f32, f32, f32, bf16}));
  EXPECT_EQ(stream({"precision.residual=bf16"}), std::vector<DType>(6, bf16));
  EXPECT_EQ(stream({"precision.residual=bf16", "memory.recompute=full"}), std::vector<DType>(6, bf16));
  EXPECT_EQ(stream({"precision.compute=fp32"}), std::vector<DType>(6, f32));
  EXPECT_EQ(stream({"model.embedding_norm=true"}), stream({})) << "the norm writes the stream";
  EXPECT_EQ(stream({"model.embedding_norm=true", "precision.residual=bf16"}), std::vector<DType>(6, bf16));
}

TEST(Passes, RowsArePaddedTo16Bytes) {
  for (const char* compute : {"fp32", "bf16"}) {
    const Graph graph = lowered({std::string("precision.compute=") + compute});
    const std::int64_t unit = compute == std::string("bf16") ? 8 : 4;
    for (const Tensor& t : graph.tensors) {
      if (t.role != Role::parameter && !(t.role == Role::activation && t.rows == graph.tokens())) continue;
      EXPECT_EQ(t.pitch % unit, 0) << t.name;
      EXPECT_GE(t.pitch, t.cols) << t.name;
      EXPECT_LT(t.pitch, t.cols + unit) << t.name;
    }
    // Gate and up fill one half each: 50 columns in a padded half.
    const std::int64_t half = (50 + unit - 1) / unit * unit;
    EXPECT_EQ(graph.at(find(graph, "gate_up_out")).cols, 2 * half);
    EXPECT_EQ(graph.at(find(graph, "gate_up_weight")).rows, 2 * half);
    EXPECT_EQ(graph.at(find(graph, "gate_up_bias")).cols, 2 * half);
  }
}

TEST(Passes, OneChunkOfLogits) {
  const Graph graph = lowered();
  EXPECT_EQ(graph.at(find(graph, "logits")).rows, 16);
  EXPECT_EQ(graph.chunk_rows, 16);
}

TEST(Passes, RecomputeDecidesWhatIsKept) {
  Graph none = lowered(), full = lowered({"memory.recompute=full"}),
        some = lowered({"memory.recompute=[norms, swiglu]"});
  const std::set<std::string> all = saved(none, "layer_forward"), few = saved(some, "layer_forward");
  EXPECT_TRUE(all.count("attention_norm_out") && all.count("swiglu_out"));
  EXPECT_FALSE(few.count("attention_norm_out") || few.count("mlp_norm_out") || few.count("swiglu_out"));
  EXPECT_TRUE(std::includes(all.begin(), all.end(), few.begin(), few.end()));
  EXPECT_TRUE(saved(full, "layer_forward").empty() || saved(full, "layer_forward") == std::set<std::string>{"x"});
  EXPECT_EQ(saved(none, "layer_forward"), saved(none, "layer_backward"));
}

TEST(Passes, RecomputeOfNormsAndSwigluCostsNoOp) {
  Graph none = lowered(), some = lowered({"memory.recompute=[norms, swiglu]"});
  EXPECT_EQ(region(none, "layer_backward").ops.size(), region(some, "layer_backward").ops.size());
  int flags = 0;
  for (const Op& op : region(some, "layer_backward").ops) {
    if (const auto* norm = std::get_if<ops::RmsNormBackwardAttributes>(&op.attributes)) flags += norm->recompute;
    if (const auto* swiglu = std::get_if<ops::SwigluBackwardAttributes>(&op.attributes)) flags += swiglu->recompute;
  }
  EXPECT_EQ(flags, 3);  // two norms and SwiGLU recompute their output
}

TEST(Passes, HeadsAreNormalisedAgainFromTheProjection) {
  Graph none = lowered({"model.qk_norm=true", "model.mlp_bias=false"}),
        norms = lowered({"model.qk_norm=true", "model.mlp_bias=false", "memory.recompute=[norms]"}),
        qkv = lowered({"model.qk_norm=true", "model.mlp_bias=false", "memory.recompute=[qkv]"});
  for (const char* tensor : {"qkv_raw", "qkv", "qk_norm_rstd"})
    EXPECT_TRUE(saved(none, "layer_forward").count(tensor)) << tensor;
  EXPECT_TRUE(saved(norms, "layer_forward").count("qkv_raw"));
  EXPECT_FALSE(saved(norms, "layer_forward").count("qkv"));
  EXPECT_FALSE(saved(norms, "layer_forward").count("qk_norm_rstd"));
  EXPECT_FALSE(saved(qkv, "layer_forward").count("qkv_raw"));
  EXPECT_TRUE(saved(qkv, "layer_forward").count("qkv"));
  EXPECT_EQ(none.at(find(none, "qk_norm_rstd")).dtype, DType::f32);
  int again = 0;
  for (const Op& op : region(norms, "layer_backward").ops) again += op.kind == OpKind::qk_norm_rope;
  EXPECT_EQ(again, 1);
}

const std::vector<std::string> kPost = {"model.norm_place=post", "model.attention_bias=false", "model.mlp_bias=false",
                                        "precision.compute=bf16"};

Graph lowered_post(std::vector<std::string> more) {
  more.insert(more.begin(), kPost.begin(), kPost.end());
  return lowered(more);
}

TEST(Passes, NormsOfResultsAddToTheStream) {
  Graph graph = lowered_post({"memory.recompute=none"});
  std::vector<std::string> adding;
  for (const Region& r : graph.regions)
    for (const Op& op : r.ops) {
      EXPECT_NE(op.kind, OpKind::add) << op.name;
      if (const auto* norm = std::get_if<ops::RmsNormAttributes>(&op.attributes); norm && norm->residual) {
        adding.push_back(op.name + (norm->copy ? " copy" : ""));
        EXPECT_EQ(graph.at(op.outputs[0]).dtype, DType::f32);
      }
      const auto* product = std::get_if<ops::LinearAttributes>(&op.attributes);
      if (op.kind != OpKind::linear_dgrad || !product->residual) continue;
      EXPECT_EQ(graph.at(op.outputs[0]).storage, op.inputs.back()) << op.name;
      adding.push_back(op.name);
    }
  EXPECT_EQ(adding,
            (std::vector<std::string>{"attention_out_norm copy", "mlp_out_norm", "gate_up_dgrad", "qkv_dgrad"}));
  const Graph sandwich = lowered({"model.norm_place=sandwich", "precision.compute=bf16"});
  for (const Region& r : sandwich.regions)
    for (const Op& op : r.ops) {
      EXPECT_NE(op.kind, OpKind::add) << op.name;
      EXPECT_NE(op.kind, OpKind::round_stream) << op.name;
    }
}

TEST(Passes, WithPostNormsResultsAreKeptOrComputedAgain) {
  const auto kept = [](const char* words) {
    Graph graph = lowered_post({std::string("memory.recompute=") + words});
    return saved(graph, "layer_forward");
  };
  for (const char* tensor : {"o_out", "down_out", "mlp_in", "attention_in"})
    EXPECT_TRUE(kept("none").count(tensor)) << tensor;
  EXPECT_FALSE(kept("[down]").count("down_out"));
  EXPECT_FALSE(kept("[residual]").count("o_out"));
  EXPECT_FALSE(kept("[norms]").count("mlp_in"));
  EXPECT_TRUE(kept("[norms]").count("o_out")) << "from which the norm is computed again";
  Graph graph = lowered_post({"memory.recompute=[norms]"});
  for (const Op& op : region(graph, "layer_backward").ops)
    if (const auto* norm = std::get_if<ops::RmsNormBackwardAttributes>(&op.attributes)) {
      EXPECT_FALSE(norm->recompute) << "the kernel has no residual stream";
    }
}

TEST(Passes, EverySecondLayer) {
  Graph graph = lowered({"memory.recompute={every: 2}"});
  EXPECT_EQ(graph.variants, (std::vector<int>{0, 1, 0}));
  for (const char* name : {"layer_forward", "layer_backward"}) {
    EXPECT_EQ(region(graph, name + std::string("_recomputed")).variant, 0) << name;
    EXPECT_EQ(region(graph, name).variant, 1) << name;
  }
}

TEST(Passes, LayersDifferInAnyPattern) {
  const spec::Spec spec = small_spec({"model.num_hidden_layers=5"}).spec;
  const RecomputeGroups swiglu = static_cast<RecomputeGroups>(RecomputeGroup::swiglu),
                        norms = static_cast<RecomputeGroups>(RecomputeGroup::norms);
  Graph graph = lower(spec, kinds_of(spec), {2, 16, {0, swiglu, norms | swiglu, swiglu, kRecomputeAll}});
  EXPECT_EQ(graph.variants, (std::vector<int>{0, 1, 2, 1, 3}));
  int forward = 0;
  for (const Region& r : graph.regions) forward += r.block == Block::layer && r.part == Part::forward;
  EXPECT_EQ(forward, 4);
  EXPECT_TRUE(saved(graph, "layer_forward").count("swiglu_out"));
  EXPECT_FALSE(saved(graph, "layer_backward_variant_1").count("swiglu_out"));
  EXPECT_TRUE(saved(graph, "layer_backward_variant_1").count("mlp_norm_out"));
  EXPECT_FALSE(saved(graph, "layer_backward_variant_2").count("mlp_norm_out"));
}

TEST(Passes, ReductionsHaveAFixedOrder) {
  const Graph graph = lowered();
  int partials = 0;
  for (const Region& region : graph.regions)
    for (std::size_t i = 0; i < region.ops.size(); ++i) {
      const Op& op = region.ops[i];
      if (op.kind != OpKind::column_sum && op.kind != OpKind::rms_norm_backward) continue;
      ++partials;
      const TensorId partial = op.outputs[op.kind == OpKind::column_sum ? 0 : 1];
      EXPECT_EQ(graph.at(partial).rows, 6) << op.name;  // 48 rows, 8 per block, on every machine
      EXPECT_EQ(region.ops[i + 1].kind, OpKind::column_reduce);
      EXPECT_EQ(region.ops[i + 1].inputs[0], partial);
    }
  EXPECT_EQ(partials, 3 + 4);
}

TEST(Passes, AnAuditHasLogitsInFp32) {
  EXPECT_THROW(lowered().region(Block::head, Part::audit), Failure);
  Graph graph = lowered({"precision.compute=bf16", "audit.compute=logits"});
  const Op &training = graph.region(Block::head, Part::loss).ops[0],
           &audit = graph.region(Block::head, Part::audit).ops[0];
  EXPECT_EQ(audit.inputs, training.inputs);
  EXPECT_EQ(graph.at(training.outputs[0]).dtype, DType::bf16);
  EXPECT_EQ(graph.at(audit.outputs[0]).dtype, DType::f32);
  EXPECT_EQ(graph.at(audit.outputs[0]).rows, 16);
  EXPECT_THROW(graph.region(Block::layer, Part::audit), Failure);
}

TEST(Passes, AnAuditOfTheWholePassReadsTheMasters) {
  Graph graph = lowered({"precision.compute=bf16", "precision.residual=bf16", "audit.compute=forward",
                         "model.qk_norm=true", "model.mlp_bias=false"});
  std::size_t ops = 0;
  for (const Region& region : graph.regions)
    for (const Op& op : region.ops) {
      if (region.part != Part::audit) continue;
      ++ops;
      for (const TensorId id : op.inputs) {
        EXPECT_NE(graph.at(id).role, Role::copy) << op.name;
        EXPECT_FALSE(graph.stream.has(id)) << op.name;
      }
      for (const auto* list : {&op.inputs, &op.outputs})
        for (const TensorId id : *list) {
          const DType type = graph.at(id).dtype;
          EXPECT_TRUE(type == DType::f32 || type == DType::i32) << op.name;
        }
    }
  const auto of = [&](Block block, Part part) { return graph.region(block, part).ops.size(); };
  EXPECT_EQ(of(Block::layer, Part::audit), of(Block::layer, Part::forward));
  EXPECT_EQ(ops,
            of(Block::embed, Part::forward) + of(Block::layer, Part::forward) + of(Block::head, Part::forward) + 2);
}

TEST(Passes, SplitMastersAreThoseOfMatrices) {
  Graph graph = lowered({"precision.compute=bf16", "precision.master=split"});
  const Tensor& masters = graph.at(graph.host(Use::masters));
  GroupSet matrices = 0;
  for (std::size_t i = 0; i < graph.groups.size(); ++i)
    if (graph.groups[i].role != ParameterRole::vectors) matrices |= GroupSet{1} << i;
  EXPECT_EQ(masters.groups & matrices, 0u);
  EXPECT_NE(masters.groups, 0u);
  GroupSet updated[2] = {};
  for (const Op& op : graph.find(Part::optimizer, Block::none)->ops)
    if (ops::row_of(op.kind).updates_weights) {
      const auto& attributes = op.as<ops::UpdateAttributes>();
      updated[attributes.split] |= attributes.groups;
      EXPECT_EQ(graph.at(op.inputs[ops::kUpdateMasters]).use, attributes.split ? Use::rest : Use::masters) << op.name;
      EXPECT_EQ(graph.at(op.outputs[1]).use == Use::ties, attributes.split) << op.name;
    }
  EXPECT_EQ(updated[true], matrices);
  EXPECT_EQ(updated[false], masters.groups);
  // The embedding is read in fp32, from all three parts.
  const Op& embedding = graph.region(Block::embed, Part::forward).ops[0];
  std::vector<DType> types;
  for (const TensorId id : embedding.inputs) types.push_back(graph.at(id).dtype);
  EXPECT_EQ(types, (std::vector{DType::i32, DType::bf16, DType::rest, DType::tie}));
  // The host reads and writes fp32, where gradients are between steps.
  const TensorId whole = graph.host(Use::gradients);
  EXPECT_EQ(graph.find(Part::join, Block::none)->ops[0].outputs, std::vector{whole});
  for (const Region& region : graph.regions)
    for (const Op& op : region.ops)
      if (op.kind == OpKind::initialise) {
        EXPECT_EQ(op.outputs, std::vector{whole});
      }
}

TEST(Passes, NothingElseChangesWithAnAudit) {
  const auto text = [](const char* compute) {
    Graph graph = lowered({"precision.compute=bf16", std::string("audit.compute=") + compute});
    std::erase_if(graph.regions, [](const Region& region) { return region.part == Part::audit; });
    const std::size_t made = lowered({"precision.compute=bf16"}).tensors.size();
    graph.tensors.resize(made);
    return ops::to_text(graph);
  };
  EXPECT_EQ(text("logits"), text("none"));
  EXPECT_EQ(text("forward"), text("none"));
}

TEST(Passes, DumpsOnlyWhatChanged) {
  const spec::Spec spec = small_spec({"precision.compute=fp32"}).spec;
  const std::vector<GraphDump> found = dumps(spec, kinds_of(spec), {2, 16, recompute_of(spec)});
  std::set<std::string> files;
  for (const GraphDump& dump : found) files.insert(dump.file);
  EXPECT_TRUE(files.count("00-build.txt"));
  EXPECT_FALSE(files.count("02-lower_precision.txt"));  // the graph starts in fp32
  for (std::size_t i = 1; i < found.size(); ++i) EXPECT_NE(found[i].text, found[i - 1].text) << found[i].file;
}

}  // namespace
}  // namespace llmc::passes
