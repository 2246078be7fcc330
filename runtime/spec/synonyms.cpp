#include "spec/synonyms.h"

#include <fmt/format.h>

#include <cctype>

namespace llmc::spec {
namespace {

constexpr const char *kLayers = "model.num_hidden_layers", *kHeads = "model.num_attention_heads",
                     *kKeyHeads = "model.num_key_value_heads", *kWidth = "model.hidden_size",
                     *kFeedForward = "model.intermediate_size", *kContext = "batch.sequence_length",
                     *kMicroBatch = "batch.micro_batch", *kTokens = "batch.tokens", *kSteps = "schedule.steps",
                     *kWarmup = "schedule.warmup_steps", *kSchedule = "schedule.kind", *kClip = "optimizer.clip_norm",
                     *kCompute = "precision.compute", *kRecompute = "memory.recompute", *kBetas = "optimizer.betas",
                     *kNormEps = "model.rms_norm_eps", *kFloor = "schedule.min_lr_ratio";
constexpr const char *kGlobal = "in tokens: sequences * batch.sequence_length",
                     *kPasses = "passes of a step are batch.tokens / (batch.micro_batch * batch.sequence_length)",
                     *kRatio = "in steps: the ratio times schedule.steps", *kFraction = "as a part of optimizer.lr",
                     *kBoth = "a list of both, such as [0.9, 0.95]", *kOneGpu = "llmc trains on one process so far",
                     *kNoDropout = "llmc has no dropout", *kNoEpochs = "llmc counts steps, not epochs",
                     *kFormat = "bf16 or fp32";

}  // namespace

const std::vector<KeySynonym>& key_synonyms() {
  static const std::vector<KeySynonym> table = {
      // The model: torchtitan, nanoGPT, Megatron-LM, and what people say.
      {"layers", kLayers, ""},
      {"n_layer", kLayers, ""},
      {"n_layers", kLayers, ""},
      {"num_layers", kLayers, ""},
      {"depth", kLayers, ""},
      {"heads", kHeads, ""},
      {"n_head", kHeads, ""},
      {"n_heads", kHeads, ""},
      {"num_heads", kHeads, ""},
      {"kv_heads", kKeyHeads, ""},
      {"n_kv_heads", kKeyHeads, ""},
      {"n_kv_head", kKeyHeads, ""},
      {"num_kv_heads", kKeyHeads, ""},
      {"num_query_groups", kKeyHeads, ""},
      {"dim", kWidth, ""},
      {"d_model", kWidth, ""},
      {"n_embd", kWidth, ""},
      {"embed_dim", kWidth, ""},
      {"embedding_dim", kWidth, ""},
      {"model_dim", kWidth, ""},
      {"d_ff", kFeedForward, ""},
      {"hidden_dim", kFeedForward, ""},
      {"ffn_dim", kFeedForward, ""},
      {"ffn_hidden_size", kFeedForward, ""},
      {"ffn_dim_multiplier", kFeedForward, "the width itself"},
      {"mlp_ratio", kFeedForward, "the width itself"},
      {"kv_channels", "model.head_dim", ""},
      {"d_head", "model.head_dim", ""},
      {"vocab", "model.vocab_size", ""},
      {"padded_vocab_size", "model.vocab_size", ""},
      {"norm_eps", kNormEps, ""},
      {"norm_epsilon", kNormEps, ""},
      {"layer_norm_epsilon", kNormEps, ""},
      {"layernorm_epsilon", kNormEps, ""},
      {"rotary_base", "model.rope_theta", ""},
      {"rope_base", "model.rope_theta", ""},
      {"rope_parameters", "model.rope_scaling", "without rope_theta, which is model.rope_theta"},
      {"tie_embeddings", "model.tie_word_embeddings", ""},
      {"weight_tying", "model.tie_word_embeddings", ""},
      {"enable_weight_tying", "model.tie_word_embeddings", ""},
      {"untie_embeddings_and_output_weights", "model.tie_word_embeddings", "the other way round"},
      {"initializer_range", "init.embedding_std", "init.linear and init.residual are those of the linear weights"},
      {"init_method_std", "init.embedding_std", "init.linear and init.residual are those of the linear weights"},
      {"bias", "", "model.attention_bias and model.mlp_bias"},
      {"qkv_bias", "model.attention_bias", ""},
      {"use_qk_norm", "model.qk_norm", ""},
      {"qk_layernorm", "model.qk_norm", ""},
      {"hidden_act", "", "llmc trains SwiGLU, always"},
      {"activation", "", "llmc trains SwiGLU, always"},
      {"swiglu", "", "llmc trains SwiGLU, always"},
      {"normalization", "", "llmc trains RMSNorm, always"},
      {"model_type", "", "llmc trains Llama models, and with model.qk_norm Qwen 3's"},
      {"dropout", "", kNoDropout},
      {"attention_dropout", "", kNoDropout},
      {"hidden_dropout", "", kNoDropout},
      // The batch.
      {"block_size", kContext, ""},
      {"seq_len", kContext, ""},
      {"seq_length", kContext, ""},
      {"max_seq_len", kContext, ""},
      {"max_seq_length", kContext, ""},
      {"context_length", kContext, ""},
      {"ctx_len", kContext, ""},
      {"max_position_embeddings", kContext, ""},
      {"micro_batch_size", kMicroBatch, ""},
      {"mbs", kMicroBatch, ""},
      {"local_batch_size", kMicroBatch, ""},
      {"device_batch_size", kMicroBatch, ""},
      {"per_device_train_batch_size", kMicroBatch, ""},
      {"train_micro_batch_size_per_gpu", kMicroBatch, ""},
      {"batch_size", kTokens, kGlobal},
      {"global_batch_size", kTokens, kGlobal},
      {"gbs", kTokens, kGlobal},
      {"train_batch_size", kTokens, kGlobal},
      {"total_batch_size", kTokens, "in tokens"},
      {"gradient_accumulation_steps", kTokens, kPasses},
      {"grad_accum_steps", kTokens, kPasses},
      {"gradient_accumulation", kTokens, kPasses},
      {"accumulate_grad_batches", kTokens, kPasses},
      // Precision and memory.
      {"dtype", kCompute, ""},
      {"torch_dtype", kCompute, ""},
      {"param_dtype", kCompute, ""},
      {"mixed_precision", kCompute, ""},
      {"mixed_precision_param", kCompute, ""},
      {"amp", kCompute, kFormat},
      {"bf16", kCompute, kFormat},
      {"fp16", kCompute, kFormat},
      {"gradient_checkpointing", kRecompute, ""},
      {"activation_checkpointing", kRecompute, ""},
      {"activation_checkpoint", kRecompute, ""},
      {"recompute_granularity", kRecompute, ""},
      {"recompute_activations", kRecompute, ""},
      // The optimizer.
      {"learning_rate", "optimizer.lr", ""},
      {"max_lr", "optimizer.lr", ""},
      {"optim", "optimizer.kind", ""},
      {"beta1", kBetas, kBoth},
      {"beta2", kBetas, kBoth},
      {"adam_beta1", kBetas, kBoth},
      {"adam_beta2", kBetas, kBoth},
      {"adam_epsilon", "optimizer.eps", ""},
      {"adam_eps", "optimizer.eps", ""},
      {"epsilon", "optimizer.eps", ""},
      {"wd", "optimizer.weight_decay", ""},
      {"grad_clip", kClip, ""},
      {"clip_grad", kClip, ""},
      {"max_grad_norm", kClip, ""},
      {"max_norm", kClip, ""},
      {"gradient_clip_val", kClip, ""},
      {"gradient_clipping", kClip, ""},
      {"clip", kClip, ""},
      // The schedule.
      {"max_steps", kSteps, ""},
      {"max_iters", kSteps, ""},
      {"train_iters", kSteps, ""},
      {"iterations", kSteps, ""},
      {"num_iterations", kSteps, ""},
      {"total_steps", kSteps, ""},
      {"lr_decay_iters", kSteps, "the run's own length"},
      {"epochs", kSteps, kNoEpochs},
      {"num_train_epochs", kSteps, kNoEpochs},
      {"max_epochs", kSteps, kNoEpochs},
      {"warmup", kWarmup, "in steps"},
      {"warmup_iters", kWarmup, ""},
      {"lr_warmup_iters", kWarmup, ""},
      {"lr_warmup_steps", kWarmup, ""},
      {"num_warmup_steps", kWarmup, ""},
      {"warmup_ratio", kWarmup, kRatio},
      {"lr_warmup_fraction", kWarmup, kRatio},
      {"lr_scheduler", kSchedule, ""},
      {"lr_scheduler_type", kSchedule, ""},
      {"lr_schedule", kSchedule, ""},
      {"lr_decay_style", kSchedule, ""},
      {"decay_type", kSchedule, ""},
      {"scheduler", kSchedule, ""},
      {"min_lr", kFloor, kFraction},
      {"min_lr_factor", kFloor, ""},
      {"min_lr_rate", kFloor, ""},
      {"decay_ratio", "schedule.decay_fraction", ""},
      // Data.
      {"dataset", "data.train", "`llmc data build` makes token shards"},
      {"dataset_path", "data.train", "`llmc data build` makes token shards"},
      {"data_path", "data.train", "a list of one {path: ...}"},
      {"train_data", "data.train", "a list of one {path: ...}"},
      {"train_data_path", "data.train", "a list of one {path: ...}"},
      {"valid_data_path", "data.validation", "a list of one {path: ...}"},
      {"val", "data.validation", "a list of one {path: ...}"},
      {"tokenizer_model", "data.tokenizer", ""},
      {"tokenizer_path", "data.tokenizer", ""},
      {"tokenizer_name", "data.tokenizer", "a sentencepiece model"},
      {"data_seed", "data.seed", ""},
      {"random_seed", "seed", ""},
      {"num_workers", "", "the trainer reads ahead by itself"},
      {"dataloader_num_workers", "", "the trainer reads ahead by itself"},
      // Evaluation, saving, logging.
      {"eval_interval", "evaluation.every", ""},
      {"eval_steps", "evaluation.every", ""},
      {"eval_iters", "evaluation.sequences", "in sequences"},
      {"eval", "evaluation", ""},
      {"sample", "sampling", ""},
      {"save_steps", "checkpoint.every", ""},
      {"save_interval", "checkpoint.every", ""},
      {"checkpoint_interval", "checkpoint.every", ""},
      {"checkpoints", "checkpoint", ""},
      {"save_total_limit", "checkpoint.keep_last", ""},
      {"keep_latest_k", "checkpoint.keep_last", ""},
      {"logging_steps", "metrics.every", ""},
      {"log_interval", "metrics.every", ""},
      {"log_freq", "metrics.every", ""},
      {"logging", "metrics", ""},
      {"report_to", "", "the run folder's metrics.jsonl has every logged step"},
      {"wandb", "", "the run folder's metrics.jsonl has every logged step"},
      {"output_dir", "", "`trainer --run DIR` names the run folder"},
      {"out_dir", "", "`trainer --run DIR` names the run folder"},
      {"resume_from_checkpoint", "", "`trainer --resume DIR` goes on from a checkpoint"},
      // The device.
      {"device", "target.kind", ""},
      {"accelerator", "target.kind", ""},
      {"gpu", "target", "{kind: cuda, arch: [90a]}"},
      {"gpus", "target", "{kind: cuda, arch: [90a]}"},
      {"attn_implementation", "target.attention", ""},
      {"use_flash_attn", "target.attention", ""},
      {"compile", "", "llmc compiles, always"},
      {"torch_compile", "", "llmc compiles, always"},
      {"world_size", "", kOneGpu},
      {"tensor_model_parallel_size", "", kOneGpu},
      {"pipeline_model_parallel_size", "", kOneGpu},
      {"data_parallel_shard_degree", "", kOneGpu},
      {"data_parallel_replicate_degree", "", kOneGpu},
      {"fsdp", "", kOneGpu},
      {"deepspeed", "", kOneGpu},
  };
  return table;
}

const std::vector<WordSynonym>& word_synonyms() {
  static const std::vector<WordSynonym> table = {
      {"target.kind", "gpu", "cuda"},
      {"target.kind", "nvidia", "cuda"},
      {"target.kind", "cuda:0", "cuda"},
      {"target.kind", "x86", "cpu"},
      {"target.kind", "x86_64", "cpu"},
      {"target.kind", "host", "cpu"},
      {"target.attention", "flash", "auto"},
      {"target.attention", "sdpa", "auto"},
      {"target.attention", "flash_attention_2", "auto"},
      {"target.attention", "eager", "portable"},
      {"precision.compute", "bfloat16", "bf16"},
      {"precision.compute", "float32", "fp32"},
      {"precision.compute", "float", "fp32"},
      {"precision.compute", "f32", "fp32"},
      {"precision.compute", "tf32", "fp32"},
      {"precision.compute", "fp16", "bf16"},
      {"precision.compute", "float16", "bf16"},
      {"precision.compute", "half", "bf16"},
      {"precision.compute", "mixed", "bf16"},
      {"precision.compute", "bf16_mixed", "bf16"},
      {"optimizer.kind", "adam", "adamw"},
      {"optimizer.kind", "adamw_torch", "adamw"},
      {"optimizer.kind", "adamw_torch_fused", "adamw"},
      {"optimizer.kind", "adamw_fused", "adamw"},
      {"schedule.kind", "cosine_with_min_lr", "cosine"},
      {"schedule.kind", "cosine_decay", "cosine"},
      {"schedule.kind", "cosine_annealing", "cosine"},
      {"schedule.kind", "linear_decay", "linear"},
      {"schedule.kind", "constant_with_warmup", "constant"},
      {"schedule.kind", "none", "constant"},
      {"schedule.kind", "warmup_stable_decay", "wsd"},
      {"model.rope_scaling.type", "default", "none"},
      {"target.arch", "a100", "80"},
      {"target.arch", "h100", "90a"},
      {"target.arch", "h200", "90a"},
      {"target.arch", "gh200", "90a"},
      {"target.arch", "b200", "100a"},
      {"target.arch", "b300", "103a"},
      {"target.arch", "a10", "86"},
      {"target.arch", "l4", "89"},
      {"target.arch", "l40s", "89"},
      {"target.arch", "rtx4090", "89"},
      {"target.arch", "rtx5090", "120a"},
      {"memory.recompute", "selective", "[norms, swiglu]"},
      {"memory.recompute", "true", "full"},
      {"memory.recompute", "false", "none"},
  };
  return table;
}

std::string plain_word(const std::string& word) {
  std::string result;
  for (char c : word)
    if (c != '-' || !result.empty())
      result += c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

std::string advice_for_key(const std::string& word) {
  const std::string plain = plain_word(word);
  for (const KeySynonym& synonym : key_synonyms()) {
    if (plain != synonym.word) continue;
    const std::string note = synonym.note, key = synonym.key;
    if (key.empty()) return note;
    return fmt::format("llmc's key is {}{}{}", key, note.empty() ? "" : "; ", note);
  }
  return {};
}

std::string our_word(const std::string& key, const std::string& word) {
  const std::string plain = plain_word(word);
  for (const WordSynonym& synonym : word_synonyms())
    if (key == synonym.key && plain == synonym.word) return synonym.ours;
  return {};
}

}  // namespace llmc::spec
