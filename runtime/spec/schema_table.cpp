// The rows of the table, in the order of the manual.
#include <algorithm>

#include "shares.h"
#include "spec/schema.h"
#include "spec/schema_row.h"
#include "spec/targets.h"

namespace llmc::spec {
namespace {

constexpr const char* kCudaArch = "90a";  // where the spec names none

std::vector<std::string> device_names() {
  std::vector<std::string> names;
  for (const DeviceMemory& device : device_memories()) names.push_back(device.name);
  return names;
}

#define FIELD(member) [](auto& spec) -> auto& { return spec.member; }

std::vector<Row> model_rows() {
  constexpr double kMaxVocabulary = 1 << 24, kMaxWidth = 1 << 20;
  const char* kLlama3 = "llama3";
  const char* kScaling = "model.rope_scaling.type";
  return {
      bind("name", Type::string, FIELD(name))
          .required()
          .label()
          .doc("Name of the run: lower-case letters, digits and hyphens. Names the build and run folders."),
      bind("model.vocab_size", Type::integer, FIELD(model.vocab_size))
          .required()
          .range(2, kMaxVocabulary)
          .unit("tokens")
          .doc("Rows of the embedding."),
      bind("model.hidden_size", Type::integer, FIELD(model.hidden_size))
          .required()
          .range(1, kMaxWidth)
          .doc("Width of the residual stream."),
      bind("model.num_hidden_layers", Type::integer, FIELD(model.num_hidden_layers))
          .required()
          .range(1, 1024)
          .doc("Decoder layers."),
      bind("model.num_attention_heads", Type::integer, FIELD(model.num_attention_heads))
          .required()
          .range(1, 4096)
          .doc("Query heads."),
      bind("model.num_key_value_heads", Type::integer, FIELD(model.num_key_value_heads))
          .range(1, 4096)
          .derived("num_attention_heads",
                   [](const Spec& s) -> std::optional<Value> {
                     if (s.model.num_attention_heads < 1) return {};
                     return s.model.num_attention_heads;
                   })
          .doc("Key and value heads (grouped-query attention). Divides num_attention_heads."),
      bind("model.head_dim", Type::integer, FIELD(model.head_dim))
          .range(2, 1024)
          .derived("hidden_size / num_attention_heads",
                   [](const Spec& s) -> std::optional<Value> {
                     if (s.model.num_attention_heads < 1 || s.model.hidden_size < s.model.num_attention_heads)
                       return {};
                     return s.model.hidden_size / s.model.num_attention_heads;
                   })
          .doc("Columns of one head. Even; at most 256 on CUDA, where cuDNN's attention takes multiples of 8."),
      bind("model.intermediate_size", Type::integer, FIELD(model.intermediate_size))
          .range(1, kMaxWidth)
          .derived("8/3 * hidden_size, rounded up to a multiple of 64",
                   [](const Spec& s) -> std::optional<Value> {
                     if (s.model.hidden_size < 1) return {};
                     const std::int64_t exact = (s.model.hidden_size * 8 + 2) / 3;
                     return (exact + 63) / 64 * 64;
                   })
          .doc("Width of SwiGLU."),
      bind("model.rope_theta", Type::number, FIELD(model.rope_theta))
          .fallback("500000")
          .above(1)
          .at_most(1e12)
          .doc("Base of the rotary frequencies: theta^(-2i/head_dim)."),
      bind_choice(kScaling, {"none", kLlama3}, FIELD(model.rope_scaling.llama3))
          .fallback("none")
          .doc("llama3: the frequency scaling of Llama 3.1 and later."),
      bind("model.rope_scaling.factor", Type::number, FIELD(model.rope_scaling.factor))
          .fallback("32")
          .when(kScaling, kLlama3)
          .range(1, 1e6)
          .doc("Divides the low frequencies."),
      bind("model.rope_scaling.low_freq_factor", Type::number, FIELD(model.rope_scaling.low_freq_factor))
          .fallback("1")
          .when(kScaling, kLlama3)
          .above(0)
          .at_most(1e6)
          .doc("Wavelengths above original_max_position_embeddings / low_freq_factor are scaled in full."),
      bind("model.rope_scaling.high_freq_factor", Type::number, FIELD(model.rope_scaling.high_freq_factor))
          .fallback("4")
          .when(kScaling, kLlama3)
          .above(0)
          .at_most(1e6)
          .doc("Wavelengths below original_max_position_embeddings / high_freq_factor are not scaled."),
      bind("model.rope_scaling.original_max_position_embeddings", Type::integer,
           FIELD(model.rope_scaling.original_max_position_embeddings))
          .fallback("8192")
          .when(kScaling, kLlama3)
          .range(1, 1 << 24)
          .unit("tokens")
          .doc("Context length of the model whose frequencies are scaled."),
      bind("model.rms_norm_eps", Type::number, FIELD(model.rms_norm_eps))
          .fallback("1e-05")
          .above(0)
          .at_most(1)
          .doc("Added to the mean square in every RMSNorm."),
      bind("model.tie_word_embeddings", Type::boolean, FIELD(model.tie_word_embeddings))
          .fallback("true")
          .doc("The head is the embedding, transposed."),
      bind("model.qk_norm", Type::boolean, FIELD(model.qk_norm))
          .fallback("false")
          .newer()
          .doc("RMSNorm over each head of q and k before RoPE, as in Qwen 3: two more weights of head_dim a layer."),
      bind("model.attention_bias", Type::boolean, FIELD(model.attention_bias))
          .fallback("false")
          .doc("Biases on the q, k, v and output projections."),
      bind("model.mlp_bias", Type::boolean, FIELD(model.mlp_bias))
          .fallback("false")
          .doc("Biases on the gate, up and down projections."),
      bind("init.from", Type::string, FIELD(init.from))
          .run_time()
          .path()
          .doc("Folder whose weights a new run begins with: a Hugging Face model's (config.json and safetensors in "
               "fp32, fp16 or bf16), a checkpoint, or a run's. Without it they are drawn."),
      bind("init.embedding_std", Type::number, FIELD(init.embedding_std))
          .fallback("0.02")
          .above(0)
          .at_most(100)
          .doc("Standard deviation of the embedding (and of an untied head)."),
      bind_std("init.linear", FIELD(init.linear))
          .fallback("fan_in")
          .above(0)
          .at_most(100)
          .doc("Standard deviation of the linear weights; fan_in: 1 / sqrt(columns); depth_scaled: hidden_size^-0.5 / "
               "sqrt(2 * num_hidden_layers)."),
      bind_std("init.residual", FIELD(init.residual))
          .fallback("depth_scaled")
          .above(0)
          .at_most(100)
          .doc("The same for o_proj and down_proj, which write to the residual stream."),
      bind_choice("precision.compute", {"fp32", "bf16"}, FIELD(compute))
          .fallback("bf16")
          .doc("Working copy of the weights, activations and matrix-product inputs. Master weights, gradient "
               "accumulation, softmax, cross-entropy and norms are fp32, always."),
      bind_choice("precision.residual", {"fp32", "bf16"}, FIELD(residual))
          .fallback("fp32")
          .doc("The residual stream between layers. bf16, with compute: bf16 only, needs less memory and rounds the "
               "stream after every layer. The stream's gradient has the compute dtype."),
  };
}

std::vector<Row> run_rows() {
  constexpr double kMaxSteps = 1e12, kMaxSequence = 1 << 20;
  const char* kValidation = "data.validation.path";
  const char* kPrompts = "sampling.prompts";
  const char* kMirror = "checkpoint.mirror";
  return {
      bind("batch.sequence_length", Type::integer, FIELD(batch.sequence_length))
          .fallback("2048")
          .range(1, kMaxSequence)
          .unit("tokens")
          .doc("Tokens of one training sample."),
      bind_auto("batch.micro_batch", FIELD(batch.micro_batch))
          .fallback("auto")
          .range(1, 65536)
          .unit("sequences")
          .doc("Sequences of one forward and backward pass; auto: the largest that fits memory.budget."),
      bind("batch.tokens", Type::integer, FIELD(batch.tokens))
          .run_time()
          .range(1, 1e12)
          .unit("tokens")
          .derived("1Mi, rounded down to whole passes",
                   [](const Spec& s) -> std::optional<Value> {
                     if (s.batch.sequence_length < 1) return {};
                     const std::int64_t pass = s.batch.sequence_length * std::max<std::int64_t>(s.batch.micro_batch, 1);
                     return std::max<std::int64_t>((1 << 20) / pass, 1) * pass;
                   })
          .doc("Global batch of one optimizer step. A multiple of sequence_length and of micro_batch * "
               "sequence_length."),
      bind("memory.budget", Type::bytes, FIELD(memory.budget))
          .aside()
          .range(1 << 20, 1LL << 50)
          .words(device_names())
          .unit("bytes")
          .derived("16GiB for cpu; for cuda that of the smallest device with target.arch, such as h100-80gb for 90a",
                   [](const Spec& s) -> std::optional<Value> {
                     if (s.target.kind == TargetKind::cpu) return std::int64_t{16} << 30;
                     return default_budget(s.target.arch.empty() ? std::vector<std::string>{kCudaArch} : s.target.arch);
                   })
          .doc("What the trainer may allocate on its device."),
      bind_recompute().fallback("none").doc(
          "What the backward pass computes again instead of keeping it: nothing, whole layers (full), every n-th "
          "layer, or the outputs of these ops in every layer."),
      bind_auto("memory.loss_chunk", FIELD(memory.loss_chunk))
          .fallback("auto")
          .range(1, (1LL << 31) - 1)
          .unit("rows")
          .doc("Rows of logits alive at once. Divides micro_batch * sequence_length; auto: the smallest chunk of at "
               "least 8192 rows (all rows where there are fewer), or the largest smaller one that fits memory.budget."),
      bind_single_choice("optimizer.kind", "adamw")
          .fallback("adamw")
          .doc("AdamW as in PyTorch: decoupled weight decay, bias correction."),
      bind("optimizer.lr", Type::number, FIELD(optimizer.lr))
          .fallback("0.0003")
          .run_time()
          .range(0, 1000)
          .doc("Peak learning rate."),
      bind_betas()
          .fallback("[0.9, 0.95]")
          .run_time()
          .count(2)
          .at_least(0)
          .below(1)
          .doc("Decay of the first and second moments."),
      bind("optimizer.eps", Type::number, FIELD(optimizer.eps))
          .fallback("1e-08")
          .run_time()
          .above(0)
          .at_most(1)
          .doc("Added to the root of the second moment."),
      bind("optimizer.weight_decay", Type::number, FIELD(optimizer.weight_decay))
          .fallback("0.1")
          .run_time()
          .range(0, 1000)
          .doc("Decoupled: a step takes lr times this part off each weight that optimizer.decay names."),
      bind_choice("optimizer.decay", {"matrices", "all"}, FIELD(optimizer.decay_all))
          .fallback("matrices")
          .run_time()
          .doc("What weight_decay applies to. matrices: these, an untied head included; not norms, biases and the "
               "embedding. all: every parameter, as PyTorch's AdamW does by default."),
      bind("optimizer.clip_norm", Type::number, FIELD(optimizer.clip_norm))
          .fallback("1")
          .run_time()
          .range(0, 1e12)
          .doc("Largest L2 norm of the whole gradient; 0: no clipping."),
      bind("optimizer.rate_scale.matrices", Type::number, FIELD(optimizer.rate_scale[0]))
          .fallback("1")
          .newer()
          .run_time()
          .range(0, 1e6)
          .doc("Times the learning rate of the matrices of layers."),
      bind("optimizer.rate_scale.head", Type::number, FIELD(optimizer.rate_scale[1]))
          .fallback("1")
          .newer()
          .run_time()
          .when("model.tie_word_embeddings", "false")
          .range(0, 1e6)
          .doc("The same for an untied head."),
      bind("optimizer.rate_scale.embedding", Type::number, FIELD(optimizer.rate_scale[2]))
          .fallback("1")
          .newer()
          .run_time()
          .range(0, 1e6)
          .doc("The same for the embedding, and a head that is tied to it."),
      bind("optimizer.rate_scale.vectors", Type::number, FIELD(optimizer.rate_scale[3]))
          .fallback("1")
          .newer()
          .run_time()
          .range(0, 1e6)
          .doc("The same for norms and biases. Each scale also scales what weight decay takes off, which goes by the "
               "learning rate."),
      bind_choice("schedule.kind", {"constant", "linear", "cosine", "wsd"}, FIELD(schedule.kind))
          .fallback("cosine")
          .run_time()
          .doc(
              "How the learning rate goes on after the warm-up. wsd: constant, then a linear fall over the last part."),
      bind("schedule.steps", Type::integer, FIELD(schedule.steps))
          .fallback("20000")
          .run_time()
          .range(1, kMaxSteps)
          .unit("steps")
          .doc("Length of the run and of the schedule."),
      bind("schedule.warmup_steps", Type::integer, FIELD(schedule.warmup_steps))
          .run_time()
          .range(0, kMaxSteps)
          .unit("steps")
          .derived("2 % of steps, rounded down",
                   [](const Spec& s) -> std::optional<Value> {
                     if (s.schedule.steps < 1) return {};
                     return std::max<std::int64_t>(s.schedule.steps - s.schedule.from_step, 0) / 50;
                   })
          .doc("Linear rise from lr / warmup_steps, so that step 0 already learns."),
      bind("schedule.from_step", Type::integer, FIELD(schedule.from_step))
          .fallback("0")
          .newer()
          .run_time()
          .range(0, kMaxSteps)
          .unit("steps")
          .doc(
              "Step at which the schedule begins: a resumed run that names its step warms up again there, and goes the "
              "rest of the way to schedule.steps with these values."),
      bind("schedule.min_lr_ratio", Type::number, FIELD(schedule.min_lr_ratio))
          .fallback("0.1")
          .run_time()
          .range(0, 1)
          .doc("Last learning rate as a part of lr (linear, cosine and wsd)."),
      bind("schedule.decay_fraction", Type::number, FIELD(schedule.decay_fraction))
          .fallback("0.2")
          .run_time()
          .when("schedule.kind", "wsd")
          .above(0)
          .at_most(1)
          .doc("The last part of the steps, in which wsd falls."),
      bind("data.tokenizer", Type::string, FIELD(data.tokenizer))
          .run_time()
          .path()
          .doc("sentencepiece model that encodes prompts and decodes samples, or a Hugging Face tokenizer.json, which "
               "decodes them; without one both are token ids."),
      bind("data.train.path", Type::string, FIELD(data.train.path))
          .required()
          .run_time()
          .path()
          .doc("Token shards; * and ? match in the last part. Sorted by name."),
      bind("data.train.format", Type::choice, FIELD(data.train.format))
          .aside()
          .words({"auto", "llmc", "nanogpt", "megatron"})
          .fallback("auto")
          .run_time()
          .doc("auto reads the header; raw nanogpt files have none and must be named."),
      bind(kValidation, Type::string, FIELD(data.validation.path))
          .run_time()
          .path()
          .doc("Token shards that are held out; without them there is no evaluation."),
      bind("data.validation.format", Type::choice, FIELD(data.validation.format))
          .aside()
          .words({"auto", "llmc", "nanogpt", "megatron"})
          .fallback("auto")
          .run_time()
          .when(kValidation, "*")
          .doc("As data.train.format."),
      bind("data.seed", Type::integer, FIELD(data.seed))
          .fallback("1337")
          .run_time()
          .at_least(0)
          .doc("Order of the training samples."),
      bind("evaluation.every", Type::integer, FIELD(evaluation.every))
          .aside()
          .fallback("250")
          .run_time()
          .when(kValidation, "*")
          .range(0, kMaxSteps)
          .unit("steps")
          .doc("Steps between evaluations; 0: none."),
      bind("evaluation.sequences", Type::integer, FIELD(evaluation.sequences))
          .aside()
          .fallback("256")
          .run_time()
          .when(kValidation, "*")
          .range(1, 1e9)
          .unit("sequences")
          .doc("Validation samples of one evaluation."),
      bind("sampling.every", Type::integer, FIELD(sampling.every))
          .aside()
          .fallback("500")
          .run_time()
          .when(kPrompts, "*")
          .range(0, kMaxSteps)
          .unit("steps")
          .doc("Steps between samples; 0: none."),
      bind(kPrompts, Type::strings, FIELD(sampling.prompts))
          .aside()
          .fallback("[]")
          .run_time()
          .doc("Beginnings that the model goes on with; without any there is no sampling."),
      bind("sampling.tokens", Type::integer, FIELD(sampling.tokens))
          .aside()
          .fallback("50")
          .run_time()
          .when(kPrompts, "*")
          .range(1, 1 << 20)
          .unit("tokens")
          .doc("Length of one sample."),
      bind("sampling.temperature", Type::number, FIELD(sampling.temperature))
          .aside()
          .fallback("0.8")
          .run_time()
          .when(kPrompts, "*")
          .range(0, 100)
          .doc("0: the likeliest token, always."),
      bind("sampling.top_p", Type::number, FIELD(sampling.top_p))
          .aside()
          .fallback("1")
          .run_time()
          .when(kPrompts, "*")
          .above(0)
          .at_most(1)
          .doc("Draws from the nucleus alone: the fewest of the likeliest tokens that have together this probability."),
      bind("checkpoint.every", Type::integer, FIELD(checkpoint.every))
          .aside()
          .fallback("1000")
          .run_time()
          .range(0, kMaxSteps)
          .unit("steps")
          .doc("Steps between checkpoints; 0: only at the end."),
      bind("checkpoint.keep_last", Type::integer, FIELD(checkpoint.keep_last))
          .aside()
          .fallback("3")
          .run_time()
          .range(1, 1e6)
          .doc("Newest checkpoints that are kept."),
      bind("checkpoint.keep_every", Type::integer, FIELD(checkpoint.keep_every))
          .aside()
          .fallback("0")
          .run_time()
          .range(0, kMaxSteps)
          .unit("steps")
          .doc("Checkpoints at multiples of it are kept for good; 0: none. A multiple of every."),
      bind("checkpoint.best", Type::string, FIELD(checkpoint.best))
          .aside()
          .run_time()
          .when(kValidation, "*")
          .doc(
              "Name of a validation set: each evaluation with its lowest loss so far is saved, and the newest of these "
              "checkpoints is kept whatever keep_last says."),
      bind("checkpoint.asynchronous", Type::boolean, FIELD(checkpoint.asynchronous))
          .aside()
          .fallback("true")
          .run_time()
          .doc("A checkpoint is written beside training, from a snapshot in the host's memory. On cpu only where "
               "memory.budget has room for it. false: training waits."),
      bind("checkpoint.verify", Type::boolean, FIELD(checkpoint.verify))
          .aside()
          .fallback("false")
          .run_time()
          .doc("Reads every file of a checkpoint back from the disk before the checkpoint appears."),
      bind(kMirror, Type::string, FIELD(checkpoint.mirror))
          .run_time()
          .path()
          .doc("A second folder for checkpoints, on another disk; --resume takes it as it takes a run folder."),
      bind("checkpoint.mirror_every", Type::integer, FIELD(checkpoint.mirror_every))
          .aside()
          .fallback("1")
          .run_time()
          .when(kMirror, "*")
          .range(1, 1e6)
          .doc("Of so many checkpoints one is copied to the mirror."),
      bind("metrics.every", Type::integer, FIELD(metrics.every))
          .aside()
          .fallback("10")
          .run_time()
          .range(1, kMaxSteps)
          .unit("steps")
          .doc("Steps between lines of progress, and between norms in metrics.jsonl, which has a line for every step."),
      bind("metrics.per_parameter", Type::boolean, FIELD(metrics.per_parameter))
          .aside()
          .fallback("true")
          .doc("Norms of every weight, gradient and update."),
      bind("guards.loss", Type::number, FIELD(guards.loss))
          .aside()
          .fallback("10")
          .run_time()
          .range(0, 1e6)
          .unit("spreads")
          .doc("A loss above the median of the window by more than so many spreads skips the update on the device; 0: "
               "none does. Spread, and the seed of each threshold: docs/guards.md."),
      bind("guards.grad_norm", Type::number, FIELD(guards.grad_norm))
          .aside()
          .fallback("20")
          .run_time()
          .range(0, 1e6)
          .unit("spreads")
          .doc("The same for the gradient's norm, where it is above optimizer.clip_norm too; 0: none does."),
      bind("guards.window", Type::integer, FIELD(guards.window))
          .aside()
          .fallback("200")
          .run_time()
          .range(1, 10000)
          .unit("steps")
          .doc("Applied steps that make up the window."),
      bind("guards.judge_after", Type::integer, FIELD(guards.judge_after))
          .aside()
          .fallback("100")
          .run_time()
          .range(1, 10000)
          .unit("steps")
          .doc("Applied steps before the first is judged; where the window is shorter, so many."),
      bind("guards.limit_in_a_row", Type::integer, FIELD(guards.limit_in_a_row))
          .aside()
          .fallback("10")
          .run_time()
          .range(1, 10000)
          .unit("steps")
          .doc("So many skipped updates in a row end the run with exit code 7."),
      bind("guards.limit", Type::integer, FIELD(guards.limit))
          .aside()
          .fallback("20")
          .run_time()
          .range(1, 10000)
          .unit("steps")
          .doc("So many skipped updates among the last limit_steps do, too."),
      bind("guards.limit_steps", Type::integer, FIELD(guards.limit_steps))
          .aside()
          .fallback("200")
          .run_time()
          .range(1, 10000)
          .unit("steps")
          .doc("The steps that limit is about."),
      bind("guards.rollback", Type::boolean, FIELD(guards.rollback))
          .aside()
          .fallback("false")
          .run_time()
          .doc("In place of ending: back to the newest checkpoint from before the first of the skipped updates, and on "
               "with the samples after them."),
      bind("guards.rollbacks", Type::integer, FIELD(guards.rollbacks))
          .aside()
          .fallback("3")
          .run_time()
          .range(1, 1000)
          .doc("After so many the run ends with exit code 7 all the same. Only with guards.rollback."),
      bind("guards.log_text", Type::boolean, FIELD(guards.log_text))
          .aside()
          .fallback("false")
          .run_time()
          .doc("Warnings show how the samples of a skipped update begin, decoded by data.tokenizer."),
      bind("guards.frozen_steps", Type::integer, FIELD(guards.frozen_steps))
          .aside()
          .fallback("100")
          .run_time()
          .range(0, 1e6)
          .unit("steps")
          .doc("A loss that has stood still for so many steps is warned of, once; 0: never."),
      bind("guards.frozen_change", Type::number, FIELD(guards.frozen_change))
          .aside()
          .fallback("1e-06")
          .run_time()
          .range(0, 1)
          .doc("Standing still: all of these losses within this part of the largest."),
      bind("parallel.world_size", Type::integer, FIELD(parallel.world_size))
          .aside()
          .fallback("1")
          .range(1, kMostRanks)
          .unit("ranks")
          .doc("Processes, one a GPU, that the plan is made for: micro_batch: auto leaves each its part of a step, and "
               "memory.budget is one rank's. The trainer runs with any number that has work for all."),
      bind_choice("parallel.shard", {"none", "optimizer", "gradients", "parameters"}, FIELD(parallel.shard))
          .fallback("optimizer")
          .doc("What several ranks share out. none: nothing, each has all and sums gradients with the others (DDP). "
               "optimizer: each keeps and updates its part of the optimizer's state (ZeRO-1). gradients: and keeps its "
               "part of the gradients, which are reduced in every micro-batch (ZeRO-2). parameters: and of the "
               "weights, which are gathered block by block, forward and backward (ZeRO-3, FSDP). One rank trains to "
               "the same bits with all of them."),
      bind_choice("parallel.gradient_dtype", {"fp32", "bf16"}, FIELD(parallel.gradient_dtype))
          .fallback("fp32")
          .doc("In what ranks send gradients to each other. bf16: half the bytes, each rank's gradients of a block are "
               "rounded once before they are summed. They are accumulated over micro-batches in fp32 either way."),
      bind("parallel.reserved_sms", Type::integer, FIELD(parallel.reserved_sms))
          .fallback("0")
          .when("target.kind", "cuda")
          .range(0, 64)
          .unit("SMs")
          .doc("With several ranks: how many of a GPU's SMs matrix products leave to the collectives that run beside "
               "them. 0: none, and collectives begin where a product's blocks end. Measure before another number: "
               "products are slower by what they leave."),
      bind("parallel.compare_every", Type::integer, FIELD(parallel.compare_every))
          .aside()
          .fallback("100")
          .run_time()
          .range(0, kMaxSteps)
          .unit("steps")
          .doc("Steps between comparisons of what several ranks have alike, by checksums; one more comes before each "
               "save. Where a rank differs, all end with exit code 7 and nothing is saved. 0: never."),
      bind("deterministic", Type::boolean, FIELD(deterministic))
          .fallback("true")
          .doc("Equal runs give equal bits. false allows the attention library's atomics on CUDA."),
      bind_choice("target.kind", {"cpu", "cuda"}, FIELD(target.kind)).fallback("cpu").doc("What the trainer runs on."),
      bind("target.arch", Type::strings, FIELD(target.arch))
          .or_single()
          .derived("native for cpu, 90a for cuda",
                   [](const Spec& s) -> std::optional<Value> {
                     return std::vector<std::string>{s.target.kind == TargetKind::cpu ? "native" : kCudaArch};
                   })
          .doc("cpu: one instruction set as g++ -march names it, native for this machine's. cuda: compute capabilities "
               "such as 80, 90a, 100."),
      bind_choice("target.attention", {"auto", "cudnn", "portable"}, FIELD(target.attention))
          .fallback("auto")
          .when("target.kind", "cuda")
          .doc("What computes attention: cuDNN, or llmc's own kernels (portable), which take any even head_dim up to "
               "256. auto: cuDNN where it has the shape; with deterministic: true, backward by whichever is predicted "
               "to be faster."),
      bind("seed", Type::integer, FIELD(seed))
          .fallback("42")
          .run_time()
          .at_least(0)
          .doc("Initial weights and sampling."),
  };
}

#undef FIELD

}  // namespace

const std::vector<Key>& keys() {
  static const std::vector<Key> table = [] {
    std::vector<Key> list;
    for (const auto& rows : {model_rows(), run_rows()})
      for (const Row& row : rows) list.push_back(row.key);
    return list;
  }();
  return table;
}

const std::vector<Group>& groups() {
  static const std::vector<Group> table = {
      {"model", "The model, under the names of Hugging Face's config.json.", "", false},
      {"model.rope_scaling", "Scaling of the rotary frequencies: none, or a map.", "type", false},
      {"init", "The weights that a run begins with: drawn, as counter-based normal numbers, or read.", "", false},
      {"precision", "Number formats.", "", false},
      {"batch", "How many tokens one step and one pass take.", "", false},
      {"memory", "What fits, and how.", "", false},
      {"optimizer", "AdamW and gradient clipping.", "", false},
      {"optimizer.rate_scale", "Learning rates of parts of the model, as multiples of lr. 0: not trained.", "", false},
      {"schedule", "The learning rate over the steps.", "", false},
      {"data", "Token shards and the tokenizer. Paths are relative to the spec.", "", false},
      {"data.train", "Training data: a list of one source.", "", true},
      {"data.validation", "Held-out data: a list of one source.", "", true},
      {"evaluation", "Loss on held-out data while training.", "", false},
      {"sampling", "Text that the model writes while training.", "", false},
      {"checkpoint", "When the state is saved, and which saves are kept.", "", false},
      {"metrics", "What metrics.jsonl gets.", "", false},
      {"guards", "Updates that are refused, and what ends a run.", "", false},
      {"parallel", "Several processes that train one model together.", "", false},
      {"target", "The device that the trainer is compiled for.", "", false},
  };
  return table;
}

}  // namespace llmc::spec
