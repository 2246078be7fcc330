// Resolved description of one model and one training run: plain values, every default filled in.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "program/dtype.h"
#include "program/optimizers.h"
#include "program/shards.h"

namespace llmc::spec {

enum class TargetKind { cpu, cuda };
enum class AttentionKind { automatic, cudnn, portable };
enum class Matmul { automatic, bf16x3, tf32, fp8, fp8_full, fp8_tensor, mxfp8 };
enum class Masters { fp32, split };
enum class OptimizerState { fp32, int8 };
enum class MuonCoefficients { quintic, polar_express };
enum class FastAccumulation { none, forward, all };
enum class Fp8Head { off, forward, forward_dgrad };
enum class ScheduleKind { constant, linear, cosine, wsd };
enum class RopeType { none, llama3, linear, yarn };
enum class NormPlace { pre, post, sandwich };
enum class QkNormOver { head, width };
enum class QkNormPlace { before_rope, after_rope };
enum class NormWeight { plain, one_plus, none };
enum class HiddenAct { silu, gelu_pytorch_tanh, relu2 };
enum class DecaySchedule { constant, cosine, linear };

/// Scaling of RoPE's frequencies: compiler/plan/rope.h has the formulas.
struct RopeScaling {
  RopeType type = RopeType::none;
  double factor = 1;
  double low_freq_factor = 1, high_freq_factor = 4;      // llama3
  std::int64_t original_max_position_embeddings = 8192;  // llama3, yarn
  double beta_fast = 32, beta_slow = 1;                  // yarn: rotations within the original context
  double attention_factor = 1;                           // yarn: scales sines and cosines
  bool truncate = true;                                  // yarn: the ramp's ends are whole pairs
  double llama_4_scaling_beta = 0;                       // yarn: q grows past the original context; 0: it does not
};

/// Set of layers: every N-th, or those of a list.
struct LayerSet {
  std::int64_t every = 0;            // layers N - 1, 2N - 1, ...; 0: those of the list
  std::vector<std::int64_t> layers;  // from 0, ascending

  bool has(std::int64_t layer) const {
    return every ? (layer + 1) % every == 0 : std::ranges::binary_search(layers, layer);
  }
  bool empty() const { return every == 0 && layers.empty(); }
  bool operator==(const LayerSet&) const = default;
};

/// Widths of fp8 products are multiples of this: the hardware reads 16 codes at a time.
constexpr std::int64_t kFp8Multiple = 16;
/// Same of mxfp8: 32 elements share a scale.
constexpr std::int64_t kMxfp8Multiple = 32;

// Values of model.layer_types.
constexpr const char *kSlidingAttention = "sliding_attention", *kFullAttention = "full_attention";

/// Names as in Hugging Face's config.json.
struct Model {
  std::int64_t vocab_size = 0, hidden_size = 0, num_hidden_layers = 0;
  std::int64_t num_attention_heads = 0, num_key_value_heads = 0, head_dim = 0, intermediate_size = 0;
  double rope_theta = 0;
  double rope_local_theta = 0;       // of sliding layers, without rope_scaling; 0: they are as the others
  double partial_rotary_factor = 1;  // RoPE rotates this fraction of each head's first elements
  bool rope_interleaved = false;     // in pairs (2i, 2i + 1), otherwise (i, i + half)
  RopeScaling rope_scaling;
  double rms_norm_eps = 0;
  bool tie_word_embeddings = false, qk_norm = false, mlp_bias = false;
  NormPlace norm_place = NormPlace::pre;                 // of the norms around attention and the MLP
  QkNormOver qk_norm_over = QkNormOver::head;            // with qk_norm: the columns that one root mean square is of
  QkNormPlace qk_norm_place = QkNormPlace::before_rope;  // with qk_norm over head
  NormWeight norm_weight = NormWeight::plain;  // of all norms. one_plus: a weight w stands for the factor 1 + w
  HiddenAct hidden_act = HiddenAct::silu;      // of the MLP's gate, or without one of up_proj's result
  bool mlp_gated = true, embedding_norm = false;
  bool attention_bias = false;      // of q, k and v
  bool attention_out_bias = false;  // of o
  std::int64_t sliding_window = 0;  // keys that a query of a sliding layer sees, its own included; 0: no sliding layers
  std::vector<std::string> layer_types;  // with a window: types of the first layers, a pattern that the others repeat
  LayerSet no_rope_layers;               // layers without RoPE
  double attention_multiplier = 0;       // of the scores
  double embedding_multiplier = 1;       // of the embedding's rows
  double residual_multiplier = 1;        // of what a layer's halves add to the residual stream
  double logits_scaling = 1;             // divides the logits
  // Soft caps, cap * tanh(v / cap), of attention's scores, which have their factor, and of the logits; 0: none
  double attn_logit_softcapping = 0, final_logit_softcapping = 0;

  /// Whether the columns of q, k and v, and all widths of layers, are multiples of kFp8Multiple, or of another number.
  bool has_fp8_columns(std::int64_t multiple = kFp8Multiple) const {
    const std::int64_t q = num_attention_heads * head_dim, k = num_key_value_heads * head_dim;
    return q % multiple == 0 && (q + 2 * k) % multiple == 0;
  }
  bool has_fp8_widths() const {
    return has_fp8_columns() && hidden_size % kFp8Multiple == 0 && intermediate_size % kFp8Multiple == 0;
  }

  bool slides(std::int64_t layer) const {
    return sliding_window && layer_types[static_cast<std::size_t>(layer) % layer_types.size()] == kSlidingAttention;
  }
  /// Whether attention and the MLP read the stream's norm, and whether their results are normalised.
  bool norms_before() const { return norm_place != NormPlace::post; }
  bool norms_after() const { return norm_place != NormPlace::pre; }
  /// Whether RoPE's angles in the layer are those of rope_local_theta.
  bool has_local_rope(std::int64_t layer) const {
    const bool differs = rope_local_theta != rope_theta || rope_scaling.type != RopeType::none;
    return rope_local_theta != 0 && differs && slides(layer) && has_rope(layer);
  }
  bool has_rope(std::int64_t layer) const { return !no_rope_layers.has(layer); }
  /// Elements of a head that RoPE rotates, the first ones. Rounded as in transformers.
  std::int64_t rotary_dim() const {
    return static_cast<std::int64_t>(static_cast<double>(head_dim) * partial_rotary_factor);
  }
  /// Number of layers with a window.
  std::int64_t sliding_layers() const {
    if (!sliding_window) return 0;
    const auto period = static_cast<std::int64_t>(layer_types.size());
    std::int64_t of_period = 0, of_rest = 0;
    for (std::int64_t layer = 0; layer < period; ++layer) {
      of_period += slides(layer);
      of_rest += layer < num_hidden_layers % period && slides(layer);
    }
    return num_hidden_layers / period * of_period + of_rest;
  }
};

/// Factor of the scores in most models.
inline double usual_attention_multiplier(const Model& model) {
  return 1 / std::sqrt(static_cast<double>(model.head_dim));
}

/// Distribution of a class of initial weights. `fan_in`: 1/sqrt(columns); `depth_scaled`: hidden_size^-0.5 / sqrt(2 *
/// layers).
struct InitStd {
  enum class Kind { value, fan_in, depth_scaled } kind = Kind::fan_in;
  double value = 0;  // when kind == value
};

/// Shape of the distribution of initial weights. truncated: normal within 3 standard deviations.
enum class Distribution { normal, uniform, truncated };

struct Init {
  std::string from;  // folder of a new run's initial weights; empty: random
  double embedding_std = 0;
  InitStd linear, residual;
  Distribution distribution = Distribution::normal;
  std::vector<std::string> zero = {};  // of o_proj and down_proj: those that begin as zeros
};

struct Loss {
  double z = 0;  // factor of the z-loss: z * mean(log-sum-exp^2) is trained on in addition to the cross-entropy
};

struct Batch {
  std::int64_t sequence_length = 0;
  std::int64_t tokens = 0;       // global batch; a multiple of sequence_length
  std::int64_t micro_batch = 0;  // sequences per pass; 0 = auto
};

/// Recomputation in layers `first` to `last`, inclusive: everything (full), or the outputs of these ops.
struct RecomputeRange {
  std::int64_t first = 0, last = 0;
  bool full = false;
  std::vector<std::string> ops = {};  // empty and not full: nothing

  bool operator==(const RecomputeRange&) const = default;
};

/// Groups of a layer's ops, in the order of their bits in the compiler's Groups (compiler/graph/graph.h).
inline constexpr const char* kRecomputeGroups[] = {"norms",   "qkv",    "attention", "residual",
                                                   "gate_up", "swiglu", "down"};
/// Same of layers whose MLP has no gate.
inline constexpr const char* kUngatedRecomputeGroups[] = {"norms", "qkv",        "attention", "residual",
                                                          "up",    "activation", "down"};
static_assert(std::size(kRecomputeGroups) == std::size(kUngatedRecomputeGroups));

/// Block outputs that are recomputed in the backward pass instead of being kept.
struct Recompute {
  enum class Kind { none, full, every, ops, layers, automatic } kind = Kind::none;
  std::int64_t every = 0;             // kind == every: layers whose index is a multiple of it are recomputed in full
  std::vector<std::string> ops = {};  // kind == ops: of kRecomputeGroups or kUngatedRecomputeGroups
  std::vector<RecomputeRange> layers = {};  // kind == layers: by `first`, without overlap; other layers keep everything

  bool operator==(const Recompute&) const = default;
};

struct Memory {
  std::int64_t budget = 0;  // bytes
  Recompute recompute;
  std::int64_t loss_chunk = 0;  // rows of logits alive at once; 0 = auto
};

struct Optimizer {
  OptimizerKind kind = OptimizerKind::adamw;
  std::array<double, 2> betas = {};
  double lr = 0, eps = 0, weight_decay = 0, clip_norm = 0;
  bool decay_all = false;                              // optimizer.decay: every parameter, not only matrices
  std::array<double, 4> rate_scale = {1, 1, 1, 1};     // by ParameterRole, as the next
  std::array<double, 4> weight_decay_of = {};          // weight_decay for those that `decay` selects, else 0
  std::array<std::array<double, 2>, 4> betas_of = {};  // betas
  MuonValues muon = {};                                // optimizer.muon, as the next three
  std::int64_t muon_iterations = 5;
  MuonCoefficients muon_coefficients = MuonCoefficients::quintic;
  bool muon_neurons = false;
};

/// Tokens that a run trains on: a number, or a multiple of the model's parameters. Neither: schedule.steps alone says
/// how long it is.
struct TokenBudget {
  std::int64_t tokens = 0;
  double times = 0;

  bool given() const { return tokens > 0 || times > 0; }
};

struct Schedule {
  ScheduleKind kind = ScheduleKind::cosine;
  std::int64_t steps = 0, warmup_steps = 0;
  double min_lr_ratio = 0;
  double decay_fraction = 0;   // wsd: final fraction of the steps, in which lr decays
  std::int64_t from_step = 0;  // first step of the schedule
  DecaySchedule weight_decay = DecaySchedule::constant;
  TokenBudget tokens = {};  // `steps` follows from it
};

struct DataSource {
  std::string path;    // may contain * and ?, relative to the spec
  std::string format;  // auto | llmc | nanogpt | nanogpt32 | megatron
};

/// Source with a user-chosen name. An empty format means data.validation.format.
struct NamedSource {
  std::string name;
  DataSource source;
};

/// Source of a mixture. An empty format means data.train.format.
struct MixedSource {
  std::string name;
  DataSource source;
  double weight = 0;       // its share of the samples is this over the sum of all weights; 0: not given
  double most_epochs = 0;  // limit of a run; 0: none
};

/// Documents inside a sample; each ends with a separator.
struct Documents {
  bool mask = false;             // attention sees the token's own document only
  bool reset_positions = false;  // RoPE's positions begin anew in each document
  bool mask_first = false;       // the target after a separator has no loss
  std::int64_t separator = -1;   // token; -1: auto
};

struct Data {
  std::string tokenizer;                     // empty: samples are printed as token ids
  DataSource train, validation;              // see validation_sets.h; without a path in either there is no evaluation
  std::vector<MixedSource> mixture;          // in the order of the spec; then train has no path
  std::vector<NamedSource> validation_sets;  // in the order of the spec
  Documents documents;
  std::uint64_t seed = 0;
};

/// Multiple-choice task of an evaluation: a file of llm.c, or .jsonl.
struct Task {
  std::string name;
  std::string path;
  std::int64_t examples = 0;  // the first ones; 0: all
};

struct Evaluation {
  std::int64_t every = 0, sequences = 0;
  std::vector<Task> tasks;  // in the order of the spec
};
enum class AuditCompute { none, logits, forward };
/// Audit of a step's loss, recomputed in fp32: runtime/train/audit.h.
struct Audit {
  AuditCompute compute = AuditCompute::none;
  std::int64_t every = 0;
  double bound = 0;  // nats
};
struct Sampling {
  std::int64_t every = 0;
  std::vector<std::string> prompts;
  std::int64_t tokens = 0;
  double temperature = 0, top_p = 1;
};
struct Checkpoint {
  std::int64_t every = 0, keep_last = 0, keep_every = 0;
  std::string best = "none";  // none, or ValidationSet::word() of the set whose loss selects the best
  bool asynchronous = true, verify = false;
  std::string mirror;  // a folder; empty: none
  std::int64_t mirror_every = 0;
};
struct Metrics {
  std::int64_t every = 0;
  bool product_share = false;
  bool per_parameter = false;
};

/// When updates are refused, and when that ends the run: runtime/train/guards.h.
struct Guards {
  double loss = 0, grad_norm = 0;  // spreads above the median; 0: no limit
  std::int64_t window = 0, judge_after = 0;
  std::int64_t limit_in_a_row = 0, limit = 0, limit_steps = 0;
  bool rollback = false;
  std::int64_t rollbacks = 0;
  bool log_text = false;
  std::int64_t frozen_steps = 0;  // 0: never
  double frozen_change = 0;
  std::int64_t plateau = 0;  // steps; 0: never
};

struct Parallel {
  std::int64_t world_size = 1;  // number of ranks that the plan is for
  Shard shard = Shard::optimizer;
  bool shard_automatic = false;       // `shard` was chosen by the planner
  DType gradient_dtype = DType::f32;  // dtype of gradients exchanged between ranks
  std::int64_t compare_every = 0;     // steps; 0: never
  std::int64_t reserved_sms = 0;      // SMs of a GPU that GEMMs leave to collectives; cuda only
};

struct Target {
  TargetKind kind = TargetKind::cpu;
  std::vector<std::string> arch;                       // cpu: one -march name; cuda: "80", "90a", "100"
  AttentionKind attention = AttentionKind::automatic;  // cuda only
  std::string device;                                  // device whose times are planned: a name or a file; empty: by
                                                       // arch
};

/// Products of precision.matmul: fp8, fp8_full, fp8_tensor and mxfp8.
struct Fp8 {
  Fp8Head head = Fp8Head::off;                     // products of the language-model head that are fp8 too
  std::int64_t first_layers = 0, last_layers = 0;  // of these the products stay in the compute dtype
  FastAccumulation fast_accumulation = FastAccumulation::forward;

  /// Whether products of a pass are summed in the width of the tensor cores.
  bool accumulates_fast(bool backward) const {
    return fast_accumulation == FastAccumulation::all || (!backward && fast_accumulation == FastAccumulation::forward);
  }
};

/// One of the phases of a run (docs/reference/specs.md), which has steps [first, last). No key: the file's `phases` are
/// merged when it is read, and each phase is a Spec.
struct Phase {
  int number = 1, count = 1;
  std::int64_t first = 0, last = 0, steps = 0;  // of the phase, and of the run
  std::vector<std::int64_t> borders = {};       // first steps of all phases but the first
  std::vector<std::string> changed = {};        // keys whose value differs from the phase before
  double tokens = 0;                            // of the run, all phases together
  std::int64_t most_tokens = 0;  // largest batch.tokens of the phases of its sequence length, which may share a trainer
  std::vector<int> trainers = {};  // of each phase: the first phase that is compiled alike; empty until all are planned
};

struct Spec {
  std::string name;
  Model model;
  Loss loss;
  Init init;
  DType compute = DType::bf16;        // precision.compute
  DType residual = DType::f32;        // precision.residual: bf16 only with compute bf16
  Matmul matmul = Matmul::automatic;  // precision.matmul: with compute fp32 bf16x3 on a cpu with AMX, tf32 on cuda
  Fp8 fp8;
  Masters master = Masters::fp32;                         // precision.master: split only with compute bf16
  OptimizerState optimizer_state = OptimizerState::fp32;  // precision.optimizer_state: int8 only with AdamW

  /// Whether gradients have a factor that the device chooses (device/types.h, LossScale).
  bool has_loss_scale() const { return compute == DType::f16; }
  /// Whether operands of the layers' products are rounded to 8 bits.
  bool has_fp8_products() const { return matmul == Matmul::fp8 || has_fp8_weight_gradients(); }
  /// Whether those of weight gradients are too, which are sums over tokens.
  bool has_fp8_weight_gradients() const {
    return matmul == Matmul::fp8_full || matmul == Matmul::fp8_tensor || matmul == Matmul::mxfp8;
  }
  /// Number of which the widths of such products are multiples.
  std::int64_t fp8_multiple() const { return matmul == Matmul::mxfp8 ? kMxfp8Multiple : kFp8Multiple; }
  /// Number that the tokens of a micro-batch are a multiple of, because weight gradients are sums over them.
  std::int64_t token_multiple() const { return has_fp8_weight_gradients() ? fp8_multiple() : 1; }
  /// Number that micro_batch is a multiple of, for that reason.
  std::int64_t sequence_multiple() const {
    return token_multiple() / std::gcd(batch.sequence_length, token_multiple());
  }
  /// Default of fp8.first_layers and last_layers: 1 with fp8_tensor, as other trainers have it, if that leaves a layer.
  std::int64_t usual_wide_layers() const { return matmul == Matmul::fp8_tensor && model.num_hidden_layers > 2 ? 1 : 0; }
  Batch batch;
  Memory memory;
  Optimizer optimizer;
  Schedule schedule;
  Data data;
  Evaluation evaluation;
  Audit audit;
  Sampling sampling;
  Checkpoint checkpoint;
  Metrics metrics;
  Guards guards;
  Parallel parallel;
  bool deterministic = true;
  Target target;
  std::uint64_t seed = 0;
  Phase phase = {};

  /// Steps of this phase, or of the whole run without phases.
  std::int64_t own_steps() const { return phase.count == 1 ? schedule.steps : phase.last - phase.first; }
};

}  // namespace llmc::spec
