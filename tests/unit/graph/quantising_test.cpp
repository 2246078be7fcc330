// Passes that round operands of matrix products to 8 bits, on the small spec.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "by_name.h"
#include "compiler/ops/op.h"
#include "compiler/passes/passes.h"
#include "small_graph.h"

namespace llmc::passes {
namespace {

using namespace graph;

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
      text += fmt::format("{} {}{}{}{}\n", op.name, q.output, q.folded ? " folded" : "", q.alone ? " alone" : "",
                          q.transposed ? " transposed" : "");
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

/// The kernels that compute operands of weight gradients again, for which layers keep the scales of their rows.
TEST(Passes, KernelsTransposeCodesThatTheyComputeAgain) {
  std::vector<std::string> words = kFp8;
  words[0] = "precision.matmul=fp8_full";
  words.insert(words.end(), {"target.kind=cuda", "target.arch=[90a]", "model.attention_bias=false",
                             "model.mlp_bias=false", "memory.recompute=[norms, swiglu]"});
  const Graph g = lowered(words);
  const Region& backward = *g.find(Part::backward, Block::layer);
  EXPECT_EQ(quantised_in(backward),
            "swiglu_backward 0 folded alone\nswiglu_backward 1 alone transposed\nmlp_norm_backward 2 alone transposed\n"
            "mlp_norm_backward 0 folded\nrope_backward 0 folded alone\nattention_norm_backward 2 alone transposed\n");
  EXPECT_EQ(std::ranges::count(backward.ops, OpKind::largest_scale, &Op::kind), 3);
  EXPECT_EQ(std::ranges::count(backward.ops, OpKind::share_scale, &Op::kind), 5) << "dy, and attention's result";
  EXPECT_EQ(operands_kept(g),
            "attention_out\nattention_out_e4m3\nattention_out_e4m3_scales\nswiglu_out_e4m3_scales\n"
            "mlp_norm_out_e4m3_scales\nattention_norm_out_e4m3_scales\n");
  // Codes that layers keep, and those of recomputed products, stay in rows.
  for (const char* recompute : {"none", "full"}) {
    words.back() = std::string("memory.recompute=") + recompute;
    const Graph other = lowered(words);
    EXPECT_EQ(quantised_in(*other.find(Part::backward, Block::layer)).find("norm_backward 2"), std::string::npos);
  }
}

/// A block collects 16 rows of SwiGLU's codes, and all of the 8 that it has of a norm's here, in 226 KiB.
TEST(Passes, WidthsWithoutMemoryForATileKeepTheirTransposes) {
  const auto transposed = [](const std::string& hidden, const std::string& ffn) {
    const Graph g = lowered({"precision.matmul=fp8_full", "target.kind=cuda", "target.arch=[90a]", "model.head_dim=16",
                             "model.hidden_size=" + hidden, "model.intermediate_size=" + ffn,
                             "memory.recompute=[norms, swiglu]", "batch.sequence_length=256", "batch.tokens=1Ki"});
    const std::string all = quantised_in(*g.find(Part::backward, Block::layer));
    return std::pair(all.find("norm_backward 2 alone transposed") != std::string::npos,
                     all.find("swiglu_backward 1 alone transposed") != std::string::npos);
  };
  EXPECT_EQ(transposed("7168", "14336"), std::pair(true, true));
  EXPECT_EQ(transposed("32768", "14480"), std::pair(false, false));
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

TEST(Passes, TheHeadsProductsHaveOneScaleATensorWithFp8Tensor) {
  std::vector<std::string> words = kFp8;
  words[0] = "precision.matmul=fp8_tensor";
  words.insert(words.end(),
               {"target.kind=cuda", "target.arch=[89]", "model.vocab_size=64", "precision.fp8.head=forward"});
  const Graph forward = lowered(words);
  words.back() = "precision.fp8.head=forward_dgrad";
  const Graph both = lowered(words);
  EXPECT_EQ(products_of(forward, *forward.find(Part::loss, Block::head)),
            "lm_head e4m3 e4m3 4\nlm_head_dgrad bf16 bf16 2\nlm_head_wgrad bf16 bf16 2\n");
  EXPECT_EQ(products_of(both, *both.find(Part::loss, Block::head)),
            "lm_head e4m3 e4m3 4\nlm_head_dgrad e5m2 e4m3 4\nlm_head_wgrad bf16 bf16 2\n");
  EXPECT_EQ(products_of(both, *both.find(Part::evaluate, Block::head)), "lm_head e4m3 e4m3 4\n");
  // Once a micro-batch x and the weight in both layouts, of one maximum each; in each chunk the logits' gradient.
  const auto& head = both.find(Part::forward, Block::head)->ops;
  EXPECT_EQ(std::ranges::count(head, OpKind::largest_magnitude, &Op::kind), 2);
  EXPECT_EQ(std::ranges::count(head, OpKind::quantise_by_tensor, &Op::kind), 2);
  EXPECT_EQ(std::ranges::count(head, OpKind::quantise_by_tensor_transposed, &Op::kind), 1);
  const auto& chunk = both.find(Part::loss, Block::head)->ops;
  EXPECT_EQ(std::ranges::count(chunk, OpKind::largest_magnitude, &Op::kind), 1);
  EXPECT_EQ(std::ranges::count(chunk, OpKind::quantise_by_tensor, &Op::kind), 1);
  for (const Op& op : head)
    for (const TensorId id : op.outputs) EXPECT_EQ(both.at(id).scope, Scope::step) << op.name;
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

/// Names of the ops of a region that only the first pass with the same weights runs.
std::string run_once(const Region& region) {
  std::string text;
  for (const Op& op : region.ops)
    if (op.once) text += op.name + "\n";
  return text;
}

TEST(Passes, MicroBatchesShareRoundedWeights) {
  std::vector<std::string> words = kFp8;
  words[0] = "precision.matmul=fp8_full";
  words.insert(words.end(), {"memory.recompute={every: 2}", "target.kind=cuda", "target.arch=[90a]",
                             "model.vocab_size=64", "precision.fp8.head=forward_dgrad"});
  const Graph codes = lowered(words, true);
  for (const int variant : {0, 1}) {
    EXPECT_EQ(run_once(*codes.find(Part::forward, Block::layer, variant)),
              "qkv_weight_e4m3\no_weight_e4m3\ngate_up_weight_e4m3\ndown_weight_e4m3\n");
    // A product that is computed again reads the forward pass's codes, and data gradients what the same kernels write.
    EXPECT_EQ(run_once(*codes.find(Part::backward, Block::layer, variant)), "");
  }
  EXPECT_EQ(run_once(*codes.find(Part::forward, Block::head)), "lm_head_weight_e4m3\n");
  for (const Region& region : codes.regions)
    for (const Op& op : region.ops)
      for (const TensorId id : op.outputs) {
        EXPECT_EQ(codes.at(id).role == Role::rounded, op.once) << op.name;
        EXPECT_EQ(op.kind == OpKind::quantise_transposed, op.once) << op.name;
      }
  for (const Region& region : lowered(words).regions) EXPECT_EQ(run_once(region), "") << region.name;
}

TEST(Passes, BothPassesShareRoundedWeightsWithoutHardware) {
  for (const char* matmul : {"fp8", "fp8_full", "fp8_tensor"}) {
    std::vector<std::string> words = kFp8;
    words[0] = std::string("precision.matmul=") + matmul;
    words.insert(words.end(), {"precision.fp8.first_layers=0", "precision.fp8.last_layers=0"});
    const Graph g = lowered(words, true);
    EXPECT_EQ(run_once(*g.find(Part::backward, Block::layer)), "");
    for (const Op& op : g.find(Part::backward, Block::layer)->ops)
      if (op.kind == OpKind::linear_dgrad) {
        EXPECT_EQ(g.at(op.inputs[1]).name, op.name.substr(0, op.name.size() - 6) + "_weight_e4m3") << matmul;
      }
  }
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

}  // namespace
}  // namespace llmc::passes
