// Keys of the step: batch, memory, optimizer, schedule.
#include <fmt/format.h>

#include <algorithm>

#include "program/parameters.h"
#include "spec/length/token_budget.h"
#include "spec/schema/rows.h"
#include "spec/targets.h"

namespace llmc::spec {
namespace {

// Kernels compute 1 - beta in fp32: here to 0.3 %, and nearer to 1 not at all.
constexpr double kMostBeta = 0.99999;

std::vector<std::string> device_names() {
  std::vector<std::string> names;
  for (const DeviceMemory& device : device_memories()) names.push_back(device.name);
  return names;
}

/// Joins `text(row)` of every value of optimizer.kind, with its name.
template <class Text>
std::string of_optimizers(Text text) {
  std::string all;
  for (const OptimizerRow& row : kOptimizers)
    if (!row.form_of) all += std::string(all.empty() ? "" : " ") + row.name + ": " + text(row);
  return all;
}

/// Those of specs come first in the table.
std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const OptimizerRow& row : kOptimizers)
    if (!row.form_of) names.push_back(row.name);
  return names;
}

std::string path_of(const char* group, ParameterRole role) {
  return fmt::format("{}.{}", group, kParameterRoleNames[static_cast<std::size_t>(role)]);
}

/// A key of optimizer.betas_of.
template <ParameterRole kRole, class Field>
KeyRow betas_of(Field field) {
  static const std::string path = path_of("optimizer.betas_of", kRole);
  return bind_pair(path.c_str(), field)
      .newer()
      .run_time()
      .at_least(0)
      .at_most(kMostBeta)
      .derived("betas", [](const Spec& s) -> std::optional<Value> {
        return std::vector<double>(s.optimizer.betas.begin(), s.optimizer.betas.end());
      });
}

/// A key of optimizer.weight_decay_of, whose default follows from optimizer.decay.
template <ParameterRole kRole, class Field>
KeyRow weight_decay_of(Field field) {
  constexpr bool kMatrix = kRole == ParameterRole::matrices || kRole == ParameterRole::head;
  static const std::string path = path_of("optimizer.weight_decay_of", kRole);
  return bind(path.c_str(), Type::number, field)
      .newer()
      .run_time()
      .range(0, 1000)
      .derived(kMatrix ? "weight_decay" : "weight_decay with decay: all, else 0",
               [](const Spec& s) -> std::optional<Value> {
                 return kMatrix || s.optimizer.decay_all ? s.optimizer.weight_decay : 0.0;
               });
}

/// A key of optimizer.muon.
KeyRow of_muon(KeyRow row) { return row.newer().when("optimizer.kind", "muon"); }

}  // namespace

std::vector<KeyRow> training_rows() {
  constexpr double kMaxSequence = 1 << 20;
  return {
      bind("batch.sequence_length", Type::integer, LLMC_FIELD(batch.sequence_length))
          .fallback("2048")
          .range(1, kMaxSequence)
          .unit("tokens")
          .doc("Tokens of one training sample."),
      bind_auto("batch.micro_batch", LLMC_FIELD(batch.micro_batch))
          .fallback("auto")
          .range(1, 65536)
          .unit("sequences")
          .doc("Sequences in one forward and backward pass. auto: the number with the least predicted time among those "
               "that fit memory.budget."),
      bind("batch.tokens", Type::integer, LLMC_FIELD(batch.tokens))
          .run_time()
          .range(1, 1e12)
          .unit("tokens")
          .derived("1Mi, rounded down to whole passes",
                   [](const Spec& s) -> std::optional<Value> {
                     if (s.batch.sequence_length < 1) return {};
                     const std::int64_t pass = s.batch.sequence_length * std::max<std::int64_t>(s.batch.micro_batch, 1);
                     return std::max<std::int64_t>((1 << 20) / pass, 1) * pass;
                   })
          .doc("Tokens of one optimizer step, over all ranks. Must be a multiple of sequence_length, and of "
               "micro_batch * sequence_length."),
      bind("memory.budget", Type::bytes, LLMC_FIELD(memory.budget))
          .aside()
          .range(1 << 20, 1LL << 50)
          .words(device_names())
          .unit("bytes")
          .derived(
              "16GiB for cpu; for cuda that of the smallest device with target.arch, such as h100-80gb for 90a, and "
              "1GiB less for NCCL where parallel.world_size is above 1",
              [](const Spec& s) -> std::optional<Value> {
                if (s.target.kind == TargetKind::cpu) return std::int64_t{16} << 30;
                const std::int64_t one_rank =
                    default_budget(s.target.arch.empty() ? std::vector<std::string>{kCudaArch} : s.target.arch);
                return s.parallel.world_size > 1 ? one_rank - kMemoryOfNccl : one_rank;
              })
          .doc("Memory that the trainer may allocate on its GPU; on a CPU, memory of its whole process."),
      bind_recompute().fallback("auto").doc(
          "What the backward pass recomputes instead of keeping it: nothing, whole layers (full), every n-th "
          "layer, the outputs of these ops in every layer, or of each layer what `layers` says, such as "
          "{0-7: full, 8-15: [norms, swiglu]}. `gate_up` is the results of gate_proj and up_proj, and `swiglu` what "
          "down_proj reads; with model.mlp_gated false `up` is the result of up_proj, and `activation` what down_proj "
          "reads. With model.norm_place post or sandwich `down` is the result of down_proj, which "
          "its norm reads. auto: nothing where that fits memory.budget, else what the planner "
          "predicts to take least time, layer by layer."),
      bind_auto("memory.loss_chunk", LLMC_FIELD(memory.loss_chunk))
          .fallback("auto")
          .range(1, (1LL << 31) - 1)
          .unit("rows")
          .doc("Rows of logits that exist at one time. Must divide micro_batch * sequence_length. auto: the smallest "
               "chunk of at least 8192 rows (all rows if there are fewer), or a smaller one if the planner predicts "
               "less time with it within memory.budget."),
      bind_choice("optimizer.kind", optimizer_names(), LLMC_FIELD(optimizer.kind))
          .fallback("adamw")
          .doc(of_optimizers([](const OptimizerRow& row) { return std::string(row.doc); })),
      bind("optimizer.lr", Type::number, LLMC_FIELD(optimizer.lr))
          .fallback("0.0003")
          .run_time()
          .range(0, 1000)
          .doc("Peak learning rate."),
      bind_pair("optimizer.betas", LLMC_FIELD(optimizer.betas))
          .fallback("[0.9, 0.95]")
          .fallback_by([](const Spec& s) -> std::optional<Value> {
            const auto [beta1, beta2] = row_of(s.optimizer.kind).betas;
            return std::vector{beta1, beta2};
          })
          .run_time()
          .at_least(0)
          .at_most(kMostBeta)
          .doc(of_optimizers([](const OptimizerRow& row) {
            return fmt::format("default [{}, {}], {}.", row.betas[0], row.betas[1], row.betas_doc);
          })),
      bind("optimizer.eps", Type::number, LLMC_FIELD(optimizer.eps))
          .fallback("1e-08")
          .run_time()
          .when("optimizer.kind", "adamw", {"muon"})
          .at_least(1e-30)
          .at_most(1)
          .doc("Epsilon, added to the square root of the second moment. Much smaller numbers are 0 in fp32."),
      bind("optimizer.weight_decay", Type::number, LLMC_FIELD(optimizer.weight_decay))
          .fallback("0.1")
          .run_time()
          .range(0, 1000)
          .doc("Decoupled weight decay: a step subtracts lr * weight_decay * weight from each weight that "
               "optimizer.decay selects."),
      bind_choice("optimizer.decay", {"matrices", "all"}, LLMC_FIELD(optimizer.decay_all))
          .fallback("matrices")
          .run_time()
          .doc("Parameters that weight_decay applies to. matrices: the matrices of layers and an untied head, but not "
               "norms, biases and the embedding. all: every parameter, as in PyTorch's AdamW by default."),
      bind("optimizer.clip_norm", Type::number, LLMC_FIELD(optimizer.clip_norm))
          .fallback("1")
          .run_time()
          .range(0, 1e12)
          .doc("The gradient is scaled down to this L2 norm if its norm is larger. 0: no clipping."),
      bind("optimizer.rate_scale.matrices", Type::number, LLMC_FIELD(optimizer.rate_scale[0]))
          .fallback("1")
          .newer()
          .run_time()
          .range(0, 1e6)
          .doc("Factor on the learning rate of the matrices of layers."),
      bind("optimizer.rate_scale.head", Type::number, LLMC_FIELD(optimizer.rate_scale[1]))
          .fallback("1")
          .newer()
          .run_time()
          .when("model.tie_word_embeddings", "false")
          .range(0, 1e6)
          .doc("Factor on the learning rate of an untied head."),
      bind("optimizer.rate_scale.embedding", Type::number, LLMC_FIELD(optimizer.rate_scale[2]))
          .fallback("1")
          .newer()
          .run_time()
          .range(0, 1e6)
          .doc("Factor on the learning rate of the embedding, and of a head that is tied to it."),
      bind("optimizer.rate_scale.vectors", Type::number, LLMC_FIELD(optimizer.rate_scale[3]))
          .fallback("1")
          .newer()
          .run_time()
          .range(0, 1e6)
          .doc("Factor on the learning rate of norms and biases. Each factor of rate_scale also scales weight decay, "
               "which is proportional to the learning rate."),
      weight_decay_of<ParameterRole::matrices>(LLMC_FIELD(optimizer.weight_decay_of[0]))
          .doc("Weight decay of the matrices of layers."),
      weight_decay_of<ParameterRole::head>(LLMC_FIELD(optimizer.weight_decay_of[1]))
          .when("model.tie_word_embeddings", "false")
          .doc("Weight decay of an untied head."),
      weight_decay_of<ParameterRole::embedding>(LLMC_FIELD(optimizer.weight_decay_of[2]))
          .doc("Weight decay of the embedding, and of a head that is tied to it."),
      weight_decay_of<ParameterRole::vectors>(LLMC_FIELD(optimizer.weight_decay_of[3]))
          .doc("Weight decay of norms and biases."),
      betas_of<ParameterRole::matrices>(LLMC_FIELD(optimizer.betas_of[0])).doc("Betas of the matrices of layers."),
      betas_of<ParameterRole::head>(LLMC_FIELD(optimizer.betas_of[1]))
          .when("model.tie_word_embeddings", "false")
          .doc("Betas of an untied head."),
      betas_of<ParameterRole::embedding>(LLMC_FIELD(optimizer.betas_of[2]))
          .doc("Betas of the embedding, and of a head that is tied to it."),
      betas_of<ParameterRole::vectors>(LLMC_FIELD(optimizer.betas_of[3])).doc("Betas of norms and biases."),
      of_muon(bind("optimizer.muon.momentum", Type::number, LLMC_FIELD(optimizer.muon.momentum)))
          .fallback("0.95")
          .run_time()
          .at_least(0)
          .at_most(kMostBeta)
          .doc("Weight of the momentum, from momentum_steps updates on. The direction is Nesterov's: the gradient "
               "and the new momentum, with these weights once more."),
      of_muon(bind("optimizer.muon.momentum_start", Type::number, LLMC_FIELD(optimizer.muon.momentum_start)))
          .fallback("0.85")
          .run_time()
          .at_least(0)
          .at_most(kMostBeta)
          .doc("Weight of the momentum in the first update, from where it rises linearly."),
      of_muon(bind("optimizer.muon.momentum_steps", Type::integer, LLMC_FIELD(optimizer.muon.momentum_steps)))
          .fallback("300")
          .run_time()
          .range(0, kMaxSteps)
          .unit("updates")
          .doc("Updates over which the weight of the momentum rises. 0: it is momentum from the start."),
      of_muon(bind("optimizer.muon.iterations", Type::integer, LLMC_FIELD(optimizer.muon_iterations)))
          .fallback("5")
          .range(1, 20)
          .doc("Iterations of Newton and Schulz that orthogonalise the momentum: three products each."),
      of_muon(bind_choice("optimizer.muon.coefficients", {"quintic", "polar_express"},
                          LLMC_FIELD(optimizer.muon_coefficients)))
          .fallback("quintic")
          .doc("Polynomials of the iterations. quintic: (3.4445, -4.7750, 2.0315) in each, as in torch.optim.Muon. "
               "polar_express: those of Amsel et al. 2025, five, of which the last is repeated."),
      of_muon(bind_choice("optimizer.muon.scaling", {"match_rms_adamw", "original"},
                          LLMC_FIELD(optimizer.muon.original_scaling)))
          .fallback("match_rms_adamw")
          .run_time()
          .doc("Factor on an update. match_rms_adamw: 0.2 sqrt(max(rows, columns)), with which lr and weight_decay of "
               "AdamW serve. original: sqrt(max(1, rows / columns))."),
      of_muon(bind_choice("optimizer.muon.normalise", {"none", "neurons"}, LLMC_FIELD(optimizer.muon_neurons)))
          .fallback("none")
          .doc("neurons: each row of the result is divided by the root of its second moment, whose decay is the second "
               "of betas, and all then have the Frobenius norm sqrt(min(rows, columns)) (NorMuon, Li et al. 2025). The "
               "moment is a number a row."),
      of_muon(bind("optimizer.muon.equilibrate", Type::boolean, LLMC_FIELD(optimizer.muon.equilibrate)))
          .fallback("false")
          .run_time()
          .doc("Whether the rows of the momentum are brought to their mean norm before the iterations, and the result "
               "to the Frobenius norm sqrt(min(rows, columns)) after them."),
      of_muon(bind_choice("optimizer.muon.decay", {"plain", "cautious"}, LLMC_FIELD(optimizer.muon.cautious)))
          .fallback("plain")
          .run_time()
          .doc("Weights of matrices that decay. plain: all. cautious: those that the update moves towards 0, or not at "
               "all."),
      bind_choice("schedule.kind", {"constant", "linear", "cosine", "wsd"}, LLMC_FIELD(schedule.kind))
          .fallback("cosine")
          .run_time()
          .doc("Shape of the learning rate after the warm-up. wsd: constant, then a linear decay over the last "
               "decay_fraction of the steps."),
      bind_tokens("schedule.tokens", LLMC_FIELD(schedule.tokens))
          .newer()
          .run_time()
          .range(1, 1e15)
          .unit("tokens")
          .doc("Tokens of the run, in place of steps: a number, or a multiple of the model's parameters, such as 20x. "
               "The run has as many whole steps as contain them."),
      bind("schedule.steps", Type::integer, LLMC_FIELD(schedule.steps))
          .fallback("20000")
          .run_time()
          .range(1, kMaxSteps)
          .unit("steps")
          .follows("schedule.tokens")
          .derived("schedule.tokens over batch.tokens, rounded up",
                   [](const Spec& s) -> std::optional<Value> {
                     if (!s.schedule.tokens.given()) return s.schedule.steps;
                     const std::optional<std::int64_t> steps = steps_of_budget(s);
                     return steps ? std::optional<Value>(*steps) : std::nullopt;
                   })
          .doc("Length of the run and of the schedule."),
      bind("schedule.warmup_steps", Type::integer, LLMC_FIELD(schedule.warmup_steps))
          .run_time()
          .range(0, kMaxSteps)
          .unit("steps")
          .derived("2 % of steps, rounded down",
                   [](const Spec& s) -> std::optional<Value> {
                     if (s.schedule.steps < 1) return {};
                     return std::max<std::int64_t>(s.schedule.steps - s.schedule.from_step, 0) / 50;
                   })
          .doc("Steps in which the learning rate rises linearly to lr. The first step has lr / warmup_steps, not 0."),
      bind("schedule.from_step", Type::integer, LLMC_FIELD(schedule.from_step))
          .fallback("0")
          .newer()
          .run_time()
          .range(0, kMaxSteps)
          .unit("steps")
          .doc("Step at which the schedule begins. A resumed run that sets it to the step it resumes from warms up "
               "once more, and follows these values up to schedule.steps."),
      bind("schedule.min_lr_ratio", Type::number, LLMC_FIELD(schedule.min_lr_ratio))
          .fallback("0.1")
          .run_time()
          .range(0, 1)
          .doc("Learning rate of the last step as a fraction of lr (linear, cosine and wsd)."),
      bind("schedule.decay_fraction", Type::number, LLMC_FIELD(schedule.decay_fraction))
          .fallback("0.2")
          .run_time()
          .when("schedule.kind", "wsd")
          .above(0)
          .at_most(1)
          .doc("Fraction of the steps, at the end, in which wsd decays."),
      bind_choice("schedule.weight_decay", {"constant", "cosine", "linear"}, LLMC_FIELD(schedule.weight_decay))
          .fallback("constant")
          .newer()
          .run_time()
          .doc("Shape of the weight decay. cosine and linear: from its value at from_step to 0 at the end of the run, "
               "without a warm-up. A weight decays by lr times this, so by a falling lr too."),
  };
}

}  // namespace llmc::spec
