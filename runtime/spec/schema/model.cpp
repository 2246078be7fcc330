// Keys of the model and of its initial weights.
#include <algorithm>
#include <cmath>

#include "spec/schema/rows.h"

namespace llmc::spec {
namespace {

std::optional<Value> wide_layers(const Spec& spec) { return spec.usual_wide_layers(); }

}  // namespace

std::vector<KeyRow> model_rows() {
  constexpr double kMaxVocabulary = 1 << 24, kMaxWidth = 1 << 20;
  // Below about 1e-28 a masked score of -1e30 times attention's factor is one that a softmax does not ignore.
  constexpr double kLeastFactor = 1e-20;
  const char *kLlama3 = "llama3", *kLinear = "linear", *kYarn = "yarn";
  const char* kScaling = "model.rope_scaling.type";
  return {
      bind("name", Type::string, LLMC_FIELD(name))
          .required()
          .label()
          .doc("Name of the run: lower-case letters, digits and hyphens. Names the build and run folders."),
      bind("model.vocab_size", Type::integer, LLMC_FIELD(model.vocab_size))
          .required()
          .range(2, kMaxVocabulary)
          .unit("tokens")
          .doc("Number of tokens in the vocabulary, the rows of the embedding."),
      bind("model.hidden_size", Type::integer, LLMC_FIELD(model.hidden_size))
          .required()
          .range(1, kMaxWidth)
          .doc("Width of the residual stream."),
      bind("model.num_hidden_layers", Type::integer, LLMC_FIELD(model.num_hidden_layers))
          .required()
          .range(1, 1024)
          .doc("Number of decoder layers."),
      bind("model.num_attention_heads", Type::integer, LLMC_FIELD(model.num_attention_heads))
          .required()
          .range(1, 4096)
          .doc("Number of query heads."),
      bind("model.num_key_value_heads", Type::integer, LLMC_FIELD(model.num_key_value_heads))
          .range(1, 4096)
          .derived("num_attention_heads",
                   [](const Spec& s) -> std::optional<Value> {
                     if (s.model.num_attention_heads < 1) return {};
                     return s.model.num_attention_heads;
                   })
          .doc("Number of key and value heads (grouped-query attention). Must divide num_attention_heads."),
      bind("model.head_dim", Type::integer, LLMC_FIELD(model.head_dim))
          .range(2, 1024)
          .derived("hidden_size / num_attention_heads",
                   [](const Spec& s) -> std::optional<Value> {
                     if (s.model.num_attention_heads < 1 || s.model.hidden_size < s.model.num_attention_heads)
                       return {};
                     return s.model.hidden_size / s.model.num_attention_heads;
                   })
          .doc("Columns of one head. Must be even, and at most 256 on CUDA, where cuDNN's attention needs a multiple "
               "of 8."),
      bind("model.intermediate_size", Type::integer, LLMC_FIELD(model.intermediate_size))
          .range(1, kMaxWidth)
          .derived("8/3 * hidden_size, rounded up to a multiple of 64",
                   [](const Spec& s) -> std::optional<Value> {
                     if (s.model.hidden_size < 1) return {};
                     const std::int64_t exact = (s.model.hidden_size * 8 + 2) / 3;
                     return (exact + 63) / 64 * 64;
                   })
          .doc("Width of the MLP."),
      bind_choice("model.hidden_act", {"silu", "gelu_pytorch_tanh", "relu2"}, LLMC_FIELD(model.hidden_act))
          .fallback("silu")
          .newer()
          .doc(
              "Activation of the MLP's gate: silu in SwiGLU, gelu_pytorch_tanh (GELU by its tanh formula) in GeGLU, or "
              "relu2, the square of ReLU."),
      bind("model.mlp_gated", Type::boolean, LLMC_FIELD(model.mlp_gated))
          .fallback("true")
          .newer()
          .doc("The MLP multiplies up_proj's result by the activation of gate_proj's. false: it has no gate_proj, and "
               "the "
               "activation is of up_proj's result, as in nanochat."),
      bind("model.rope_theta", Type::number, LLMC_FIELD(model.rope_theta))
          .fallback("500000")
          .above(1)
          .at_most(1e12)
          .doc("Base of the rotary frequencies: theta^(-2i/head_dim)."),
      bind("model.partial_rotary_factor", Type::number, LLMC_FIELD(model.partial_rotary_factor))
          .fallback("1")
          .above(0)
          .at_most(1)
          .newer()
          .doc("Fraction of each head of q and k that RoPE rotates: the first partial_rotary_factor * head_dim "
               "elements, "
               "an even number, which then replaces head_dim in the frequencies. The others stay as they are. GLM-4: "
               "0.5."),
      bind("model.rope_interleaved", Type::boolean, LLMC_FIELD(model.rope_interleaved))
          .fallback("false")
          .newer()
          .doc("RoPE rotates neighbours, elements 2i and 2i + 1 of a head, as in GLM-4. false: elements i and i + half "
               "of what it rotates, as in Llama."),
      bind_choice(kScaling, {"none", kLlama3, kLinear, kYarn}, LLMC_FIELD(model.rope_scaling.type))
          .fallback("none")
          .doc("Scaling of the rotary frequencies, as in transformers. llama3: of Llama 3.1 and later. linear: all are "
               "divided by factor. yarn: pairs with many rotations within the original context keep theirs, those with "
               "few have them divided by factor."),
      bind("model.rope_scaling.factor", Type::number, LLMC_FIELD(model.rope_scaling.factor))
          .fallback("32")
          .when(kScaling, kLlama3, {kLinear, kYarn})
          .range(1, 1e6)
          .doc("Divides the low frequencies; with linear all."),
      bind("model.rope_scaling.low_freq_factor", Type::number, LLMC_FIELD(model.rope_scaling.low_freq_factor))
          .fallback("1")
          .when(kScaling, kLlama3)
          .above(0)
          .at_most(1e6)
          .doc("Wavelengths above original_max_position_embeddings / low_freq_factor are scaled in full."),
      bind("model.rope_scaling.high_freq_factor", Type::number, LLMC_FIELD(model.rope_scaling.high_freq_factor))
          .fallback("4")
          .when(kScaling, kLlama3)
          .above(0)
          .at_most(1e6)
          .doc("Wavelengths below original_max_position_embeddings / high_freq_factor are not scaled."),
      bind("model.rope_scaling.original_max_position_embeddings", Type::integer,
           LLMC_FIELD(model.rope_scaling.original_max_position_embeddings))
          .fallback("8192")
          .when(kScaling, kLlama3, {kYarn})
          .range(1, 1 << 24)
          .unit("tokens")
          .doc("Context length of the model whose frequencies are scaled."),
      bind("model.rope_scaling.beta_fast", Type::number, LLMC_FIELD(model.rope_scaling.beta_fast))
          .fallback("32")
          .when(kScaling, kYarn)
          .above(0)
          .at_most(1e6)
          .newer()
          .doc("Pairs with more rotations than this within original_max_position_embeddings keep their frequencies."),
      bind("model.rope_scaling.beta_slow", Type::number, LLMC_FIELD(model.rope_scaling.beta_slow))
          .fallback("1")
          .when(kScaling, kYarn)
          .above(0)
          .at_most(1e6)
          .newer()
          .doc("Pairs with fewer rotations than this have their frequencies divided by factor."),
      bind("model.rope_scaling.attention_factor", Type::number, LLMC_FIELD(model.rope_scaling.attention_factor))
          .when(kScaling, kYarn)
          .above(0)
          .at_most(1e6)
          .newer()
          .derived("0.1 * ln(factor) + 1",
                   [](const Spec& s) -> std::optional<Value> {
                     return 0.1 * std::log(std::max(s.model.rope_scaling.factor, 1.0)) + 1;
                   })
          .doc("Multiplies the rotated q and k, and so the scores by its square. transformers' mscale and "
               "mscale_all_dim give another one."),
      bind("model.rope_scaling.truncate", Type::boolean, LLMC_FIELD(model.rope_scaling.truncate))
          .fallback("true")
          .when(kScaling, kYarn)
          .newer()
          .doc("The ramp between beta_fast and beta_slow begins and ends at whole pairs."),
      bind("model.rope_scaling.llama_4_scaling_beta", Type::number, LLMC_FIELD(model.rope_scaling.llama_4_scaling_beta))
          .fallback("0")
          .when(kScaling, kYarn)
          .range(0, 1e6)
          .newer()
          .doc("Multiplies q after RoPE by 1 + beta * ln(1 + floor(position / original_max_position_embeddings)), in "
               "layers with RoPE. A sequence within the original context is as with 0, the default. Ministral 3: 0.1."),
      bind("model.rms_norm_eps", Type::number, LLMC_FIELD(model.rms_norm_eps))
          .fallback("1e-05")
          .at_least(1e-30)
          .at_most(1)
          .doc("Added to the mean square in every RMSNorm."),
      bind("model.tie_word_embeddings", Type::boolean, LLMC_FIELD(model.tie_word_embeddings))
          .fallback("true")
          .doc("The head is the embedding, transposed."),
      bind("model.qk_norm", Type::boolean, LLMC_FIELD(model.qk_norm))
          .fallback("false")
          .newer()
          .doc("RMSNorm over each head of q and k, as in Qwen 3: two more weights of head_dim a layer."),
      bind_choice("model.qk_norm_over", {"head", "width"}, LLMC_FIELD(model.qk_norm_over))
          .fallback("head")
          .when("model.qk_norm", "true")
          .newer()
          .doc("Columns that share a root mean square. head: those of one head. width: all of q, and all of k, as in "
               "OLMo 2: the weights have as many columns."),
      bind_choice("model.qk_norm_place", {"before_rope", "after_rope"}, LLMC_FIELD(model.qk_norm_place))
          .fallback("before_rope")
          .when("model.qk_norm", "true")
          .newer()
          .doc("Whether q and k are normalised before RoPE, or after it as in nanochat. after_rope needs qk_norm_over: "
               "head. Norms without weights are the same before and after, unless yarn has an attention_factor."),
      bind_choice("model.norm_place", {"pre", "post", "sandwich"}, LLMC_FIELD(model.norm_place))
          .fallback("pre")
          .newer()
          .doc("RMSNorms of a layer. pre: of what attention and the MLP read. post: of their results, which are then "
               "added to the residual stream, as in OLMo 2. sandwich: both."),
      bind_choice("model.norm_weight", {"plain", "one_plus", "none"}, LLMC_FIELD(model.norm_weight))
          .fallback("plain")
          .newer()
          .doc("Weights of all RMSNorms. plain: they begin as 1 and multiply. one_plus: a norm multiplies by 1 + "
               "weight, "
               "which begins as 0, as in Gemma. none: norms have no weights."),
      bind("model.embedding_norm", Type::boolean, LLMC_FIELD(model.embedding_norm))
          .fallback("false")
          .newer()
          .doc("RMSNorm of the embedding's rows where the first layer reads them, as in nanochat. It has no weights."),
      bind("model.attention_bias", Type::boolean, LLMC_FIELD(model.attention_bias))
          .fallback("false")
          .doc("Biases on the q, k and v projections, and on the output projection unless attention_out_bias differs."),
      bind("model.attention_out_bias", Type::boolean, LLMC_FIELD(model.attention_out_bias))
          .newer()
          .derived("attention_bias", [](const Spec& s) -> std::optional<Value> { return s.model.attention_bias; })
          .doc("Bias on attention's output projection. Qwen 2 has attention_bias: true and attention_out_bias: "
               "false."),
      bind("model.mlp_bias", Type::boolean, LLMC_FIELD(model.mlp_bias))
          .fallback("false")
          .doc("Biases on the gate, up and down projections."),
      bind_optional("model.sliding_window", LLMC_FIELD(model.sliding_window))
          .range(1, 1 << 24)
          .unit("tokens")
          .newer()
          .doc("Number of keys that a query of a sliding layer sees, its own included. none: every layer "
               "attends to all tokens before it."),
      bind_layer_types()
          .words({kSlidingAttention, kFullAttention})
          .fallback("[sliding_attention]")
          .when("model.sliding_window", "*")
          .newer()
          .doc("Attention of each layer: sliding_attention uses sliding_window, full_attention does not. A shorter "
               "list is repeated."),
      bind_optional("model.rope_local_theta", LLMC_FIELD(model.rope_local_theta))
          .above(1)
          .at_most(1e12)
          .when("model.sliding_window", "*")
          .newer()
          .doc("rope_theta of the sliding layers, whose frequencies rope_scaling leaves as they are, and whose q and k "
               "have no attention_factor. none: "
               "all layers have the same. Gemma 3: 10000. OLMo 3: rope_theta, with yarn on the full layers."),
      bind_no_rope_layers().newer().doc(
          "Layers without RoPE: N for every N-th (4: layers 3, 7, 11, ...), or a list of layers, which count from 0. "
          "none: all layers have RoPE. transformers' list of the same name is another one: its 1 stands "
          "for a layer with RoPE."),
      bind("model.attention_multiplier", Type::number, LLMC_FIELD(model.attention_multiplier))
          .at_least(kLeastFactor)
          .at_most(1e6)
          .newer()
          .derived("head_dim^-0.5",
                   [](const Spec& s) -> std::optional<Value> {
                     if (s.model.head_dim < 1) return {};
                     return usual_attention_multiplier(s.model);
                   })
          .doc("Factor of the scores before the softmax."),
      bind("model.embedding_multiplier", Type::number, LLMC_FIELD(model.embedding_multiplier))
          .fallback("1")
          .at_least(kLeastFactor)
          .at_most(1e6)
          .newer()
          .doc("Factor of the embedding's rows where the first layer reads them. A tied head reads them without it."),
      bind("model.residual_multiplier", Type::number, LLMC_FIELD(model.residual_multiplier))
          .fallback("1")
          .at_least(kLeastFactor)
          .at_most(1e6)
          .newer()
          .doc("Factor of the results of attention and of the MLP where they are added to the residual stream."),
      bind("model.logits_scaling", Type::number, LLMC_FIELD(model.logits_scaling))
          .fallback("1")
          .at_least(kLeastFactor)
          .at_most(1e6)
          .newer()
          .doc("Divides the logits."),
      bind_optional("model.attn_logit_softcapping", LLMC_FIELD(model.attn_logit_softcapping))
          .at_least(kLeastFactor)
          .at_most(1e6)
          .newer()
          .doc("Soft cap of attention's scores before the mask: cap * tanh(score / cap), where a score has its factor, "
               "as in Gemma 2 (50). none: no cap. cuDNN has none together with a causal mask."),
      bind_optional("model.final_logit_softcapping", LLMC_FIELD(model.final_logit_softcapping))
          .at_least(kLeastFactor)
          .at_most(1e6)
          .newer()
          .doc("Soft cap of the logits, as in Gemma 2 (30). none: no cap."),
      bind("loss.z", Type::number, LLMC_FIELD(loss.z))
          .fallback("0")
          .range(0, 1)
          .newer()
          .doc(
              "Factor of the z-loss: z * mean(log-sum-exp^2) of the logits is added to the loss that is trained on, so "
              "that logits do not drift. `loss` in metrics stays the cross-entropy; z_loss is a metric of its own. "
              "Usual: 1.0e-4. 0: none."),
      bind("init.from", Type::string, LLMC_FIELD(init.from))
          .run_time()
          .path()
          .doc("Folder with the weights that a new run starts from: a Hugging Face model (config.json and safetensors "
               "in fp32, fp16 or bf16), a checkpoint, or a run folder. Without this key the weights are initialised at "
               "random."),
      bind("init.embedding_std", Type::number, LLMC_FIELD(init.embedding_std))
          .fallback("0.02")
          .above(0)
          .at_most(100)
          .doc("Standard deviation of the embedding (and of an untied head)."),
      bind_std("init.linear", LLMC_FIELD(init.linear))
          .fallback("fan_in")
          .above(0)
          .at_most(100)
          .doc("Standard deviation of the linear weights; fan_in: 1 / sqrt(columns); depth_scaled: hidden_size^-0.5 / "
               "sqrt(2 * num_hidden_layers)."),
      bind_std("init.residual", LLMC_FIELD(init.residual))
          .fallback("depth_scaled")
          .above(0)
          .at_most(100)
          .doc("Standard deviation of o_proj and down_proj, which write to the residual stream; values as in "
               "init.linear."),
      bind("init.zero", Type::strings, LLMC_FIELD(init.zero))
          .words({"o_proj", "down_proj"})
          .fallback("[]")
          .newer()
          .doc("Matrices that begin as zeros in place of init.residual, so that each layer at first passes the stream "
               "through unchanged."),
      bind_choice("init.distribution", {"normal", "uniform", "truncated"}, LLMC_FIELD(init.distribution))
          .fallback("normal")
          .newer()
          .doc("Distribution of the random weights, of the standard deviations above. uniform: between -sqrt(3) and "
               "sqrt(3) of them. truncated: normal within 3 of them, where what is outside is drawn anew, so that the "
               "weights deviate 1.3 % less."),
      bind_choice("precision.compute", {"fp32", "bf16", "fp16"}, LLMC_FIELD(compute))
          .fallback("bf16")
          .doc(
              "Dtype of the working copy of the weights, of activations and of operands of matrix products. Master "
              "weights, gradient accumulation, softmax, cross-entropy and norms are always fp32. fp16, on cuda only, "
              "has 3 bits of mantissa more than bf16 and a range of 6e-8 to 65504. Its gradients therefore have a loss "
              "scale, which begins at 65536, is halved when gradients are not finite, and doubled after 2000 steps in "
              "which all were."),
      bind_choice("precision.residual", {"fp32", "bf16"}, LLMC_FIELD(residual))
          .fallback("fp32")
          .doc("Dtype of the residual stream between layers. bf16 needs less memory and rounds the stream after every "
               "layer; it is allowed only with compute: bf16. The stream's gradient has the compute dtype."),
      bind_choice("precision.matmul", {"auto", "bf16x3", "tf32", "fp8", "fp8_full", "fp8_tensor", "mxfp8"},
                  LLMC_FIELD(matmul))
          .fallback("auto")
          .newer()
          .doc(
              "Arithmetic of the matrix products of linear layers. auto: the compute dtype. bf16x3: three bf16 "
              "products with fp32 sums, of operands that are split into two bf16 numbers each. It needs compute: fp32 "
              "and a cpu arch with AMX (sapphirerapids). Its relative error is 4e-6, that of fp32 some 1e-7, that of "
              "bf16 2e-3. A product with a side that is not a multiple of 32 stays in fp32. tf32: tensor cores read 10 "
              "bits of the mantissas of fp32 operands; sums are fp32. It needs compute: fp32 and cuda. Its relative "
              "error is 5e-4. fp8: operands of the layers' forward and data-gradient products are rounded to e4m3, "
              "each row divided by a power of two before. It needs compute: bf16. Weight gradients stay in bf16, and "
              "so does the head, but for precision.fp8.head. fp8_full: weight gradients too; all rows of their "
              "operands take the largest row's scale. fp8_tensor: all three products, with one scale a tensor and "
              "gradients in e5m2. mxfp8: all three, with one scale for each 32 elements along the sum. cuda arch 90 "
              "and 90a have products of the first three, arch 89 and those from 100 on of fp8_tensor; runs of mxfp8 "
              "for arch 100 and 103 can be planned, and not compiled yet. A cpu and arch 80, 86 and 87 compute the "
              "same numbers in bf16, which takes longer than auto."),
      bind_choice("precision.master", {"fp32", "split"}, LLMC_FIELD(master))
          .fallback("fp32")
          .newer()
          .doc("Format of the master weights of matrices. split: the bf16 copy, 16 bits of rest and a bit for ties of "
               "the "
               "rounding, which together are the fp32 number. The run has the bits of one with fp32, and needs 1.9 "
               "bytes "
               "less a parameter. It needs compute: bf16. Norms and biases keep fp32."),
      bind_choice("precision.optimizer_state", {"fp32", "int8"}, LLMC_FIELD(optimizer_state))
          .fallback("fp32")
          .newer()
          .doc("Format of AdamW's moments. int8: codes of 8 bits with one fp32 scale for each 256 elements, which "
               "takes 2 "
               "bytes a parameter instead of 8. The embedding, norms, biases and tensors of less than 4096 elements "
               "keep "
               "fp32. So does a tensor whose rows are padded to 16 bytes, or which begins within 256 elements of a "
               "weight that holds several."),
      bind_choice("precision.fp8.head", {"off", "forward", "forward_dgrad"}, LLMC_FIELD(fp8.head))
          .fallback("off")
          .newer()
          .when("precision.matmul", "fp8", {"fp8_full", "fp8_tensor"})
          .doc("Products of the head whose operands are rounded too: none, the logits, or the logits and the gradient "
               "of the last norm's result. Its weight gradient stays in bf16, and so do the logits of samples."),
      bind("precision.fp8.first_layers", Type::integer, LLMC_FIELD(fp8.first_layers))
          .fallback("0")
          .fallback_by(wide_layers)
          .range(0, 10000)
          .newer()
          .when("precision.matmul", "fp8", {"fp8_full", "fp8_tensor", "mxfp8"})
          .doc("Number of first layers whose products stay in bf16; default 1 with fp8_tensor and three layers or "
               "more."),
      bind("precision.fp8.last_layers", Type::integer, LLMC_FIELD(fp8.last_layers))
          .fallback("0")
          .fallback_by(wide_layers)
          .range(0, 10000)
          .newer()
          .when("precision.matmul", "fp8", {"fp8_full", "fp8_tensor", "mxfp8"})
          .doc(
              "Number of last layers whose products stay in bf16; default 1 with fp8_tensor and three layers or more."),
      bind_choice("precision.fp8.fast_accumulation", {"none", "forward", "all"}, LLMC_FIELD(fp8.fast_accumulation))
          .fallback("forward")
          .newer()
          .when("precision.matmul", "fp8", {"fp8_full", "fp8_tensor"})
          .doc("Products whose sums stay in the tensor cores' own width, about 14 bits, all along the sum. The others "
               "are promoted to fp32 every 128 terms, which takes longer. none, forward, or all: gradients too. On "
               "cuda with fp8 products; elsewhere sums are fp32."),
  };
}

}  // namespace llmc::spec
