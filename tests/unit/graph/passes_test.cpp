// Properties of individual passes, on the small spec.
#include "compiler/passes/passes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
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

/// Lists the products of a region with the dtypes of their operands, and the number of their inputs.
std::string products_of(const Graph& g, const Region& region) {
  std::string text;
  for (const Op& op : region.ops)
    if (ops::row_of(op.kind).multiplies != ops::Multiplies::no_operands)
      text += fmt::format("{} {} {} {}\n", op.name, name_of(g.at(op.inputs[0]).dtype),
                          name_of(g.at(op.inputs[1]).dtype), op.inputs.size());
  return text;
}

const std::vector<std::string> kFp8 = {"precision.matmul=fp8", "model.hidden_size=32", "model.head_dim=16",
                                       "model.intermediate_size=48"};

TEST(Passes, Fp8RoundsOperandsOfForwardAndDataGradientProducts) {
  std::vector<std::string> cuda = kFp8;
  cuda.insert(cuda.end(), {"target.kind=cuda", "target.arch=[90a]"});
  const Graph codes = lowered(cuda), numbers = lowered(kFp8);
  EXPECT_EQ(products_of(codes, *codes.find(Part::forward, Block::layer)),
            "qkv e4m3 e4m3 5\no e4m3 e4m3 6\ngate_up e4m3 e4m3 5\ndown e4m3 e4m3 6\n");
  EXPECT_EQ(products_of(codes, *codes.find(Part::backward, Block::layer)),
            "down_wgrad bf16 bf16 2\ndown_dgrad e4m3 e4m3 4\ngate_up_wgrad bf16 bf16 2\ngate_up_dgrad e4m3 e4m3 4\n"
            "o_wgrad bf16 bf16 2\no_dgrad e4m3 e4m3 4\nqkv_wgrad bf16 bf16 2\nqkv_dgrad e4m3 e4m3 4\n");
  EXPECT_EQ(products_of(codes, *codes.find(Part::loss, Block::head)),
            "lm_head bf16 bf16 2\nlm_head_dgrad bf16 bf16 2\nlm_head_wgrad bf16 bf16 2\n");
  // Without hardware the operands are numbers, and data gradients read the very weights of the forward pass.
  for (const Part part : {Part::forward, Part::backward})
    for (const Op& op : numbers.find(part, Block::layer)->ops) {
      if (op.kind != OpKind::linear && op.kind != OpKind::linear_dgrad) continue;
      for (std::size_t i = 0; i < 2; ++i) {
        const Tensor& operand = numbers.at(op.inputs[i]);
        EXPECT_EQ(operand.dtype, DType::bf16) << op.name;
        EXPECT_NE(operand.name.find("_e4m3"), std::string::npos) << op.name;
      }
    }
}

TEST(Passes, Fp8FullRoundsOperandsOfWeightGradientsToo) {
  std::vector<std::string> cuda = kFp8;
  cuda[0] = "precision.matmul=fp8_full";
  cuda.insert(cuda.end(), {"target.kind=cuda", "target.arch=[90a]"});
  const Graph g = lowered(cuda);
  const Region& backward = *g.find(Part::backward, Block::layer);
  EXPECT_EQ(products_of(g, backward),
            "down_wgrad e4m3 e4m3 4\ndown_dgrad e4m3 e4m3 4\ngate_up_wgrad e4m3 e4m3 4\ngate_up_dgrad e4m3 e4m3 4\n"
            "o_wgrad e4m3 e4m3 4\no_dgrad e4m3 e4m3 4\nqkv_wgrad e4m3 e4m3 4\nqkv_dgrad e4m3 e4m3 4\n");
  // dy is quantised once for both gradients, and by the kernel that makes it but for that of the layer above; the
  // operands of the forward pass are kept as it has quantised them.
  EXPECT_EQ(std::ranges::count(backward.ops, OpKind::quantise, &Op::kind), 1);
  EXPECT_EQ(std::ranges::count(backward.ops, OpKind::quantise_transposed, &Op::kind), 4);
  EXPECT_EQ(std::ranges::count(backward.ops, OpKind::share_scale, &Op::kind), 8);
}

/// Lists the results that ops of a region quantise: "op output", and whether anything else reads them.
std::string quantised_in(const Region& region) {
  std::string text;
  for (const Op& op : region.ops)
    for (const Quantised& q : op.quantised)
      text += fmt::format("{} {}{}{}\n", op.name, q.output, q.folded ? " folded" : "", q.alone ? " alone" : "");
  return text;
}

/// Names of what the layers keep, of the tensors that are operands of products.
std::string operands_kept(const Graph& g) {
  std::string text;
  for (const TensorId id : g.layer_forward(0).saved)
    for (const char* name : {"attention_norm_out", "attention_out", "mlp_norm_out", "swiglu_out"})
      if (g.at(id).name.starts_with(name)) text += g.at(id).name + "\n";
  return text;
}

TEST(Passes, KernelsQuantiseWhatTheyMake) {
  std::vector<std::string> words = kFp8;
  words.insert(words.end(), {"memory.recompute=[norms, swiglu]", "model.attention_bias=false", "model.mlp_bias=false"});
  const Graph fp8 = lowered(words);
  const Region &forward = *fp8.find(Part::forward, Block::layer), &backward = *fp8.find(Part::backward, Block::layer);
  EXPECT_EQ(quantised_in(forward), "attention_norm 0 alone\nmlp_norm 0 alone\nswiglu 0 alone\n");
  // Weight gradients read dy in bf16.
  EXPECT_EQ(quantised_in(backward), "swiglu_backward 0 folded\nmlp_norm_backward 0 folded\nrope_backward 0 folded\n");
  EXPECT_EQ(operands_kept(fp8), "attention_out\n");
  words[0] = "precision.matmul=fp8_full";
  const Graph full = lowered(words);
  EXPECT_EQ(quantised_in(*full.find(Part::backward, Block::layer)),
            "swiglu_backward 0 folded alone\nswiglu_backward 1 alone\nmlp_norm_backward 2 alone\n"
            "mlp_norm_backward 0 folded\nrope_backward 0 folded alone\nattention_norm_backward 2 alone\n");
}

TEST(Passes, LayersKeepOperandsOfFp8WeightGradientsAsTheyWereQuantised) {
  std::vector<std::string> words = kFp8;
  words.push_back("memory.recompute=none");
  const Graph fp8 = lowered(words);
  EXPECT_EQ(operands_kept(fp8), "attention_norm_out\nattention_out\nmlp_norm_out\nswiglu_out\n");
  EXPECT_EQ(quantised_in(*fp8.find(Part::forward, Block::layer)), "attention_norm 0\nmlp_norm 0\nswiglu 0\n");
  words[0] = "precision.matmul=fp8_full";
  const Graph full = lowered(words);
  EXPECT_EQ(operands_kept(full),
            "attention_out\nswiglu_out_e4m3\nswiglu_out_e4m3_scales\nmlp_norm_out_e4m3\nmlp_norm_out_e4m3_scales\n"
            "attention_out_e4m3\nattention_out_e4m3_scales\nattention_norm_out_e4m3\nattention_norm_out_e4m3_scales\n")
      << "the gradient of attention reads its result";
  EXPECT_EQ(quantised_in(*full.find(Part::forward, Block::layer)),
            "attention_norm 0 alone\nmlp_norm 0 alone\nswiglu 0 alone\n");
}

TEST(Passes, TheHeadsProductsAreFp8OnRequest) {
  std::vector<std::string> words = kFp8;
  words.insert(words.end(),
               {"target.kind=cuda", "target.arch=[90a]", "model.vocab_size=64", "precision.fp8.head=forward"});
  const Graph forward = lowered(words);
  words.back() = "precision.fp8.head=forward_dgrad";
  const Graph both = lowered(words);
  EXPECT_EQ(products_of(forward, *forward.find(Part::loss, Block::head)),
            "lm_head e4m3 e4m3 4\nlm_head_dgrad bf16 bf16 2\nlm_head_wgrad bf16 bf16 2\n");
  EXPECT_EQ(products_of(both, *both.find(Part::loss, Block::head)),
            "lm_head e4m3 e4m3 4\nlm_head_dgrad e4m3 e4m3 4\nlm_head_wgrad bf16 bf16 2\n");
  EXPECT_EQ(products_of(both, *both.find(Part::evaluate, Block::head)), "lm_head e4m3 e4m3 4\n");
  EXPECT_EQ(products_of(both, *both.find(Part::sample, Block::none)), "sample_logits bf16 bf16 2\n");
  words.push_back("audit.compute=logits");
  EXPECT_EQ(products_of(lowered(words), *lowered(words).find(Part::audit, Block::head)), "audit_logits bf16 bf16 2\n")
      << "an audit shows what rounding has changed";
  // Once a micro-batch. The weight gradient and samples read the norm's result itself.
  EXPECT_EQ(quantised_in(*both.find(Part::forward, Block::head)), "final_norm 0\n");
  const auto chunk = both.find(Part::loss, Block::head)->ops;
  EXPECT_EQ(std::ranges::count(chunk, OpKind::quantise, &Op::kind), 1);
  EXPECT_EQ(std::ranges::count(chunk, OpKind::quantise_transposed, &Op::kind), 0);
}

TEST(Passes, Fp8TensorRoundsGradientsToE5m2WithOneScale) {
  std::vector<std::string> cpu = kFp8;
  cpu[0] = "precision.matmul=fp8_tensor";
  cpu.insert(cpu.end(), {"precision.fp8.first_layers=0", "precision.fp8.last_layers=0"});
  std::vector<std::string> cuda = cpu;
  cuda.insert(cuda.end(), {"target.kind=cuda", "target.arch=[89]"});
  const Graph codes = lowered(cuda), numbers = lowered(cpu);
  EXPECT_EQ(products_of(codes, *codes.find(Part::forward, Block::layer)),
            "qkv e4m3 e4m3 5\no e4m3 e4m3 6\ngate_up e4m3 e4m3 5\ndown e4m3 e4m3 6\n");
  const Region& backward = *codes.find(Part::backward, Block::layer);
  EXPECT_EQ(products_of(codes, backward),
            "down_wgrad e5m2 e4m3 4\ndown_dgrad e5m2 e4m3 4\ngate_up_wgrad e5m2 e4m3 4\ngate_up_dgrad e5m2 e4m3 4\n"
            "o_wgrad e5m2 e4m3 4\no_dgrad e5m2 e4m3 4\nqkv_wgrad e5m2 e4m3 4\nqkv_dgrad e5m2 e4m3 4\n");
  // A step has several regions of layers: their tensors live in one of them.
  for (const Tensor& t : codes.tensors)
    if (t.dtype == DType::e4m3 || t.dtype == DType::e5m2) {
      EXPECT_EQ(t.scope, Scope::layer) << t.name;
    }
  // Two kernels for each dy, x and weight.
  EXPECT_EQ(std::ranges::count(backward.ops, OpKind::largest_magnitude, &Op::kind), 12);
  EXPECT_EQ(std::ranges::count(backward.ops, OpKind::quantise_by_tensor_transposed, &Op::kind), 12);
  EXPECT_EQ(std::ranges::count(backward.ops, OpKind::quantise_by_tensor, &Op::kind), 0);
  for (const Op& op : backward.ops)
    if (ops::row_of(op.kind).multiplies != ops::Multiplies::no_operands) {
      EXPECT_EQ(codes.at(op.inputs[2]).elements(), 1) << op.name;
      EXPECT_EQ(codes.at(op.inputs[3]).elements(), 1) << op.name;
    }
  for (const Op& op : numbers.find(Part::backward, Block::layer)->ops)
    if (ops::row_of(op.kind).multiplies != ops::Multiplies::no_operands) {
      EXPECT_TRUE(numbers.at(op.inputs[0]).name.ends_with("_back_e5m2")) << op.name;
      EXPECT_TRUE(numbers.at(op.inputs[1]).name.ends_with("_back_e4m3")) << op.name;
      EXPECT_EQ(op.inputs.size(), 2u) << op.name;
    }
}

/// "qkv attention_norm_out_mxfp8 qkv_weight_mxfp8": the operands of the products.
std::string operands_of(const Graph& g, const Region& region) {
  std::string text;
  for (const Op& op : region.ops)
    if (ops::row_of(op.kind).multiplies != ops::Multiplies::no_operands)
      text += fmt::format("{} {} {}\n", op.name, g.at(op.inputs[0]).name, g.at(op.inputs[1]).name);
  return text;
}

TEST(Passes, Mxfp8RoundsOperandsInBlocksAlongEachSum) {
  const std::vector<std::string> cpu = {"precision.matmul=mxfp8",     "model.hidden_size=32",     "model.head_dim=32",
                                        "model.intermediate_size=64", "batch.sequence_length=16", "batch.tokens=64"};
  std::vector<std::string> cuda = cpu;
  cuda.insert(cuda.end(), {"target.kind=cuda", "target.arch=[100a]"});
  const Graph codes = lowered(cuda), numbers = lowered(cpu);
  const std::string backward =
      "down_wgrad d_x_next_back_mxfp8_down swiglu_out_back_mxfp8_down\n"
      "down_dgrad d_x_next_back_mxfp8 down_weight_back_mxfp8_down\n"
      "gate_up_wgrad d_gate_up_out_back_mxfp8_down mlp_norm_out_back_mxfp8_down\n"
      "gate_up_dgrad d_gate_up_out_back_mxfp8 gate_up_weight_back_mxfp8_down\n"
      "o_wgrad d_x_mid_back_mxfp8_down attention_out_back_mxfp8_down\n"
      "o_dgrad d_x_mid_back_mxfp8 o_weight_back_mxfp8_down\n"
      "qkv_wgrad d_qkv_raw_back_mxfp8_down attention_norm_out_back_mxfp8_down\n"
      "qkv_dgrad d_qkv_raw_back_mxfp8 qkv_weight_back_mxfp8_down\n";
  for (const Graph* g : {&codes, &numbers}) {
    EXPECT_EQ(operands_of(*g, *g->find(Part::forward, Block::layer)),
              "qkv attention_norm_out_mxfp8 qkv_weight_mxfp8\no attention_out_mxfp8 o_weight_mxfp8\n"
              "gate_up mlp_norm_out_mxfp8 gate_up_weight_mxfp8\ndown swiglu_out_mxfp8 down_weight_mxfp8\n");
    EXPECT_EQ(operands_of(*g, *g->find(Part::backward, Block::layer)), backward);
    for (const Region& region : g->regions)
      for (const Op& op : region.ops)
        if (op.kind == OpKind::quantise_blocks) {
          EXPECT_EQ(op.as<ops::BlockAttributes>().down, op.name.ends_with("_down")) << op.name;
        }
  }
  EXPECT_EQ(products_of(codes, *codes.find(Part::forward, Block::layer)),
            "qkv e4m3 e4m3 5\no e4m3 e4m3 6\ngate_up e4m3 e4m3 5\ndown e4m3 e4m3 6\n");
  // 32 tokens of 128 columns: a row of four scales for each token, padded to 128; one scale for each column.
  EXPECT_EQ(codes.at(find(codes, "swiglu_out_mxfp8_scales")).bytes(), 128 * 4) << "two scales a token";
  EXPECT_EQ(codes.at(find(codes, "d_gate_up_out_back_mxfp8_scales")).bytes(), 128 * 4);
  EXPECT_EQ(codes.at(find(codes, "d_gate_up_out_back_mxfp8_down_scales")).bytes(), 128 * 4);
  EXPECT_EQ(codes.at(find(codes, "d_qkv_raw_back_mxfp8_down_scales")).bytes(), 384 * 4) << "320 columns";
}

TEST(Passes, LayersAtEitherEndKeepTheirProducts) {
  std::vector<std::string> words = kFp8;
  words.insert(words.end(), {"precision.fp8.first_layers=1", "precision.fp8.last_layers=1"});
  const Graph g = lowered(words);
  ASSERT_EQ(g.variants, (std::vector<int>{0, 1, 0}));
  for (const Part part : {Part::forward, Part::backward})
    for (const int variant : {0, 1})
      EXPECT_EQ(std::ranges::any_of(g.find(part, Block::layer, variant)->ops,
                                    [](const Op& op) { return op.kind == OpKind::quantise; }),
                variant == 1);
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
