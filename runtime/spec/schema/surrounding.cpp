// Keys outside of the step: data, evaluation, samples, checkpoints, guards, ranks, the target.
#include "program/shards.h"
#include "spec/schema/rows.h"

namespace llmc::spec {

namespace {

KeyRow bind_separator() {
  KeyRow row = bind("data.documents.separator", Type::integer, LLMC_FIELD(data.documents.separator));
  row.key.words = {"auto"};
  row.key.get = [](const Spec& spec) -> Value {
    const std::int64_t token = spec.data.documents.separator;
    return token < 0 ? Value("auto") : Value(token);
  };
  row.key.set = [](Spec& spec, const Value& value) {
    const auto* token = std::get_if<std::int64_t>(&value);
    spec.data.documents.separator = token ? *token : -1;
  };
  return row;
}

}  // namespace

std::vector<KeyRow> surrounding_rows() {
  const char* kValidation = "data.validation";
  const char* kPrompts = "sampling.prompts";
  const char* kMirror = "checkpoint.mirror";
  const std::vector<std::string> kFormats = {"auto", "llmc", "nanogpt", "nanogpt32", "megatron"};
  return {
      bind("data.tokenizer", Type::string, LLMC_FIELD(data.tokenizer))
          .run_time()
          .path()
          .doc("A sentencepiece model or a Hugging Face tokenizer.json, which encodes prompts and decodes samples. "
               "Without a tokenizer, prompts and samples are token ids."),
      bind("data.train.path", Type::string, LLMC_FIELD(data.train.path))
          .required_unless("data.train.NAME")
          .run_time()
          .path()
          .doc("Path of the token shards. The file name may contain the patterns * and ?; matching files are sorted by "
               "name."),
      bind("data.train.format", Type::choice, LLMC_FIELD(data.train.format))
          .aside()
          .words(kFormats)
          .fallback("auto")
          .run_time()
          .doc("auto reads the header; raw files have none and must be named: nanogpt is uint16, nanogpt32 is uint32, "
               "as OLMo "
               "and dolma write them."),
      bind_entries<MixedSource>(
          "data.train.NAME", Type::map, LLMC_FIELD(data.mixture),
          {bind_member<MixedSource>(Type::string, named("path").path(), LLMC_MEMBER(source.path)),
           bind_optional_member<MixedSource>(
               Type::number,
               named("weight").above(0).at_most(1e12).doc(
                   "Share of the samples that come from this source, relative to the weights of the others. In each "
                   "2^20 samples each source is within one sample of its share. One with less than a 2^20th of all "
                   "weights is never drawn, and a warning names it. A mixture of one source needs none."),
               LLMC_MEMBER(weight)),
           bind_optional_member<MixedSource>(
               Type::number,
               named("most_epochs")
                   .above(0)
                   .at_most(1e12)
                   .unit("epochs")
                   .doc("A run that would pass over this source more often is refused before its first step."),
               LLMC_MEMBER(most_epochs)),
           bind_member<MixedSource>(
               Type::choice,
               named("format").words(kFormats).doc("As data.train.format, of this source; without it "
                                                   "data.train.format."),
               LLMC_MEMBER(source.format))})
          .shorthand("path")
          .entry("source")
          .run_time()
          .path()
          .doc(
              "Sources of a mixture, each under a name of yours: letters, digits, - and _, at most 32, a letter first. "
              "In a file `train: {web: {path: \"web-*.bin\", weight: 0.8}, code: {path: \"code-*.bin\", weight: "
              "0.2}}`. Changing a source of a run that has begun needs `--allow data.train.NAME`, or `--allow "
              "data.train.NAME.weight` for its weight (docs/how-to/mix-data.md)."),
      bind("data.validation.path", Type::string, LLMC_FIELD(data.validation.path))
          .run_time()
          .path()
          .doc("Token shards that are held out; without any there is no evaluation."),
      bind("data.validation.format", Type::choice, LLMC_FIELD(data.validation.format))
          .aside()
          .words(kFormats)
          .fallback("auto")
          .run_time()
          .when(kValidation, "*")
          .doc("As data.train.format, of all validation data."),
      bind_entries<NamedSource>(
          "data.validation.NAME", Type::map, LLMC_FIELD(data.validation_sets),
          {bind_member<NamedSource>(Type::string, named("path").path(), LLMC_MEMBER(source.path)),
           bind_member<NamedSource>(
               Type::choice,
               named("format").words(kFormats).doc("As data.train.format, of this set; without it "
                                                   "data.validation.format. In a file `web: {path: \"web-*.bin\", "
                                                   "format: nanogpt}`."),
               LLMC_MEMBER(source.format))})
          .shorthand("path")
          .entry("validation set")
          .reserved({"none", "validation"}, "are words of checkpoint.best")
          .run_time()
          .path()
          .doc(
              "More held-out shards, each under a name of yours: letters, digits, - and _, at most 32, a letter first. "
              "In a file `validation: {web: \"web-*.bin\", code: \"code-*.bin\"}`, with path: among them or without."),
      bind("data.documents.mask", Type::boolean, LLMC_FIELD(data.documents.mask))
          .newer()
          .fallback("false")
          .doc("Whether a token attends only to its own document. A document ends with its separator; a sample holds "
               "any "
               "number of them, in whole or in part (docs/explanation/documents.md)."),
      bind("data.documents.reset_positions", Type::boolean, LLMC_FIELD(data.documents.reset_positions))
          .newer()
          .fallback("false")
          .doc("Whether positions begin anew in each document. RoPE's scores depend on distances alone, so within "
               "rounding this changes nothing. Only with data.documents.mask."),
      bind("data.documents.mask_first", Type::boolean, LLMC_FIELD(data.documents.mask_first))
          .newer()
          .fallback("false")
          .run_time()
          .doc("Whether the first token of a document is no target: the separator before it does not announce it."),
      bind_separator()
          .newer()
          .fallback("auto")
          .run_time()
          .range(0, (1LL << 31) - 1)
          .doc("Token that ends each document. auto: the one that the dataset.json of the training data records, or "
               "with "
               "which the documents of Megatron's .idx end, else the end of text of data.tokenizer."),
      bind("data.seed", Type::integer, LLMC_FIELD(data.seed))
          .fallback("1337")
          .run_time()
          .at_least(0)
          .doc("Order of the training samples."),
      bind("evaluation.every", Type::integer, LLMC_FIELD(evaluation.every))
          .aside()
          .fallback("250")
          .run_time()
          .when(kValidation, "*")
          .range(0, kMaxSteps)
          .unit("steps")
          .doc("Steps between evaluations; 0: none."),
      bind("evaluation.sequences", Type::integer, LLMC_FIELD(evaluation.sequences))
          .aside()
          .fallback("256")
          .run_time()
          .when(kValidation, "*")
          .range(1, 1e9)
          .unit("sequences")
          .doc("Samples that one evaluation reads from each validation set."),
      bind_entries<Task>(
          "evaluation.tasks.NAME", Type::map, LLMC_FIELD(evaluation.tasks),
          {bind_member<Task>(Type::string, named("path").path(), LLMC_MEMBER(path)),
           bind_optional_member<Task>(
               Type::integer,
               named("examples").range(1, 1e9).unit("examples").doc("Only the first ones; without it all."),
               LLMC_MEMBER(examples))})
          .shorthand("path")
          .entry("task")
          .run_time()
          .path()
          .when(kValidation, "*")
          .doc("Multiple-choice tasks that each evaluation answers: a file in llm.c's format (magic 20240522), or "
               ".jsonl "
               "of context, endings and label, which needs data.tokenizer. Names as in data.validation.NAME. In a file "
               "`tasks: {hellaswag: hellaswag_val.bin}`. Metrics: task/NAME and task/NAME/norm "
               "(docs/how-to/answer-tasks.md)."),
      bind_choice("audit.compute", {"none", "logits", "forward"}, LLMC_FIELD(audit.compute))
          .aside()
          .newer()
          .fallback("none")
          .doc("Part of a step's loss that is recomputed in fp32, to check the first computation. logits: the logits "
               "and the loss. forward: the whole forward pass, with the master weights. none: no audit, and no code or "
               "memory for it. Cost and memory: docs/reference/guards.md."),
      bind("audit.every", Type::integer, LLMC_FIELD(audit.every))
          .aside()
          .fallback("500")
          .run_time()
          .when("audit.compute", "*")
          .range(0, kMaxSteps)
          .unit("steps")
          .doc("Steps between audits. The first step has one too. 0: none."),
      bind("audit.bound", Type::number, LLMC_FIELD(audit.bound))
          .aside()
          .fallback("0.02")
          .run_time()
          .when("audit.compute", "*")
          .range(0, 1e6)
          .unit("nats")
          .doc("A loss that differs from its audit by more than this causes a warning. The next warning comes only "
               "after an audit within the bound. Origin of the default: docs/reference/guards.md."),
      bind("sampling.every", Type::integer, LLMC_FIELD(sampling.every))
          .aside()
          .fallback("500")
          .run_time()
          .when(kPrompts, "*")
          .range(0, kMaxSteps)
          .unit("steps")
          .doc("Steps between samples; 0: none."),
      bind(kPrompts, Type::strings, LLMC_FIELD(sampling.prompts))
          .aside()
          .fallback("[]")
          .run_time()
          .doc("Prompts that the model continues. Without prompts there is no sampling."),
      bind("sampling.tokens", Type::integer, LLMC_FIELD(sampling.tokens))
          .aside()
          .fallback("50")
          .run_time()
          .when(kPrompts, "*")
          .range(1, 1 << 20)
          .unit("tokens")
          .doc("Length of one sample."),
      bind("sampling.temperature", Type::number, LLMC_FIELD(sampling.temperature))
          .aside()
          .fallback("0.8")
          .run_time()
          .when(kPrompts, "*")
          .range(0, 100)
          .doc("Divides the logits before sampling. 0: always the most likely token."),
      bind("sampling.top_p", Type::number, LLMC_FIELD(sampling.top_p))
          .aside()
          .fallback("1")
          .run_time()
          .when(kPrompts, "*")
          .above(0)
          .at_most(1)
          .doc("Nucleus sampling: samples only from the smallest set of most likely tokens with at least this total "
               "probability."),
      bind("checkpoint.every", Type::integer, LLMC_FIELD(checkpoint.every))
          .aside()
          .fallback("1000")
          .run_time()
          .range(0, kMaxSteps)
          .unit("steps")
          .doc("Steps between checkpoints; 0: only at the end."),
      bind("checkpoint.keep_last", Type::integer, LLMC_FIELD(checkpoint.keep_last))
          .aside()
          .fallback("3")
          .run_time()
          .range(1, 1e6)
          .doc("Number of newest checkpoints that are kept."),
      bind("checkpoint.keep_every", Type::integer, LLMC_FIELD(checkpoint.keep_every))
          .aside()
          .fallback("0")
          .run_time()
          .range(0, kMaxSteps)
          .unit("steps")
          .doc("Checkpoints at multiples of this step are never removed. Must be a multiple of every. 0: none."),
      bind("checkpoint.best", Type::string, LLMC_FIELD(checkpoint.best))
          .aside()
          .fallback("none")
          .run_time()
          .when(kValidation, "*")
          .doc("Validation set whose best checkpoint is kept: validation for data.validation.path, or the name of "
               "another set. Each evaluation with the lowest loss so far is saved, and the newest of these checkpoints "
               "is kept in addition to keep_last."),
      bind("checkpoint.asynchronous", Type::boolean, LLMC_FIELD(checkpoint.asynchronous))
          .aside()
          .fallback("true")
          .run_time()
          .doc("Writes a checkpoint while training continues, from a snapshot in host memory. On a CPU only if "
               "memory.budget has room for the snapshot. false: training waits."),
      bind("checkpoint.verify", Type::boolean, LLMC_FIELD(checkpoint.verify))
          .aside()
          .fallback("false")
          .run_time()
          .doc("Reads every file of a checkpoint back from the disk before the checkpoint appears."),
      bind(kMirror, Type::string, LLMC_FIELD(checkpoint.mirror))
          .run_time()
          .path()
          .doc("A second folder, on another disk, to which this run's checkpoints are copied. --resume accepts it like "
               "a run folder."),
      bind("checkpoint.mirror_every", Type::integer, LLMC_FIELD(checkpoint.mirror_every))
          .aside()
          .fallback("1")
          .run_time()
          .when(kMirror, "*")
          .range(1, 1e6)
          .doc("Distance between two copies, as a multiple of checkpoint.every. 1: every checkpoint is copied."),
      bind("metrics.every", Type::integer, LLMC_FIELD(metrics.every))
          .aside()
          .fallback("10")
          .run_time()
          .range(1, kMaxSteps)
          .unit("steps")
          .doc("Steps between lines of progress, and between norms in metrics.jsonl, which has a line for every step."),
      bind("metrics.per_parameter", Type::boolean, LLMC_FIELD(metrics.per_parameter))
          .aside()
          .fallback("true")
          .doc("Records the norms of every weight, gradient and update."),
      bind("metrics.product_share", Type::boolean, LLMC_FIELD(metrics.product_share))
          .aside()
          .fallback("true")
          .run_time()
          .doc("Times a large matrix product of the model at start. metrics.jsonl then has the rate of each step as a "
               "fraction of that product's rate."),
      bind("guards.loss", Type::number, LLMC_FIELD(guards.loss))
          .aside()
          .fallback("10")
          .run_time()
          .range(0, 1e6)
          .unit("spreads")
          .doc("Skips the update of a step whose log(1 + loss) is above the median of the window by more than this "
               "many spreads. 0: never. Definition of a spread, and origin of the defaults: docs/reference/guards.md."),
      bind("guards.grad_norm", Type::number, LLMC_FIELD(guards.grad_norm))
          .aside()
          .fallback("20")
          .run_time()
          .range(0, 1e6)
          .unit("spreads")
          .doc("Same for the logarithm of the gradient's norm, if the norm is also above optimizer.clip_norm. 0: "
               "never."),
      bind("guards.window", Type::integer, LLMC_FIELD(guards.window))
          .aside()
          .fallback("200")
          .run_time()
          .range(1, 10000)
          .unit("steps")
          .doc("Number of applied steps in the window, over which median and spread are computed."),
      bind("guards.judge_after", Type::integer, LLMC_FIELD(guards.judge_after))
          .aside()
          .fallback("100")
          .run_time()
          .range(1, 10000)
          .unit("steps")
          .doc("Applied steps before the first check; guards.window of them if that is less."),
      bind("guards.limit_in_a_row", Type::integer, LLMC_FIELD(guards.limit_in_a_row))
          .aside()
          .fallback("10")
          .run_time()
          .range(1, 10000)
          .unit("steps")
          .doc("Number of skipped updates in a row that ends the run with exit code 7."),
      bind("guards.limit", Type::integer, LLMC_FIELD(guards.limit))
          .aside()
          .fallback("20")
          .run_time()
          .range(1, 10000)
          .unit("steps")
          .doc("Number of skipped updates in the last limit_steps steps that ends the run with exit code 7. Above "
               "limit_steps: never."),
      bind("guards.limit_steps", Type::integer, LLMC_FIELD(guards.limit_steps))
          .aside()
          .fallback("200")
          .run_time()
          .range(1, 10000)
          .unit("steps")
          .doc("Number of steps over which guards.limit counts."),
      bind("guards.rollback", Type::boolean, LLMC_FIELD(guards.rollback))
          .aside()
          .fallback("false")
          .run_time()
          .doc("Instead of ending, the run returns to the newest checkpoint before the first of the skipped updates, "
               "and continues with the samples after them."),
      bind("guards.rollbacks", Type::integer, LLMC_FIELD(guards.rollbacks))
          .aside()
          .fallback("3")
          .run_time()
          .range(1, 1000)
          .doc("Number of rollbacks after which the next one ends the run with exit code 7. Serves only with "
               "guards.rollback."),
      bind("guards.log_text", Type::boolean, LLMC_FIELD(guards.log_text))
          .aside()
          .fallback("false")
          .run_time()
          .doc("Warnings about a skipped update show the beginning of its samples, decoded by data.tokenizer."),
      bind("guards.frozen_steps", Type::integer, LLMC_FIELD(guards.frozen_steps))
          .aside()
          .fallback("100")
          .run_time()
          .range(0, 1e6)
          .unit("steps")
          .doc("Warns once if the loss did not change for this many steps, at least 2. 0: never."),
      bind("guards.frozen_change", Type::number, LLMC_FIELD(guards.frozen_change))
          .aside()
          .fallback("1e-06")
          .run_time()
          .range(0, 1)
          .doc("Relative change up to which a loss counts as unchanged: the range of these losses, as a fraction of "
               "the largest."),
      bind_optional("guards.plateau", LLMC_FIELD(guards.plateau))
          .aside()
          .run_time()
          .range(0, kMaxSteps)
          .unit("steps")
          .doc("Warns once if the smoothed loss of so many steps did not fall by more than its spread. Rounded up to a "
               "multiple of 8. 0 or none: never. Definition: docs/reference/guards.md."),
      bind("parallel.world_size", Type::integer, LLMC_FIELD(parallel.world_size))
          .aside()
          .fallback("1")
          .range(1, kMostRanks)
          .unit("ranks")
          .doc("Number of ranks (processes, one for each GPU) that the plan is made for. micro_batch: auto leaves each "
               "rank its part of a step, and memory.budget is that of one rank. The trainer runs with any number of "
               "ranks that has a micro-batch for each."),
      bind_shard()
          .fallback("optimizer")
          .doc(
              "What several ranks shard. none: nothing, each has all and sums gradients with the others (DDP). "
              "optimizer: each keeps and updates its part of the optimizer's state (ZeRO-1). gradients: and keeps its "
              "part of the gradients, which are reduced in every micro-batch (ZeRO-2). parameters: and of the "
              "weights, which are gathered block by block, forward and backward (ZeRO-3, FSDP). auto: the one that the "
              "planner predicts to take least time of those that fit memory.budget. One rank trains to the same bits "
              "with all of them."),
      bind_choice("parallel.gradient_dtype", {"fp32", "bf16"}, LLMC_FIELD(parallel.gradient_dtype))
          .fallback("fp32")
          .doc("Dtype in which ranks send gradients to each other. bf16: half the bytes, and each rank's gradients of "
               "a block are rounded once before they are summed. Gradients are accumulated over micro-batches in fp32 "
               "in both cases."),
      bind("parallel.reserved_sms", Type::integer, LLMC_FIELD(parallel.reserved_sms))
          .fallback("0")
          .when("target.kind", "cuda")
          .range(0, 64)
          .unit("SMs")
          .doc("With several ranks: number of a GPU's SMs that matrix products leave to overlapped collectives. 0: "
               "none; a collective starts when blocks of a product end. Products become slower with fewer SMs, so "
               "measure before setting it."),
      bind("parallel.compare_every", Type::integer, LLMC_FIELD(parallel.compare_every))
          .aside()
          .fallback("100")
          .run_time()
          .range(0, kMaxSteps)
          .unit("steps")
          .doc("Steps between comparisons, by checksums, of the data that all ranks must have in common. There is one "
               "more before each save. If a rank differs, all ranks end with exit code 7 and nothing is saved. 0: "
               "never."),
      bind("deterministic", Type::boolean, LLMC_FIELD(deterministic))
          .fallback("true")
          .doc("Runs with the same spec, data and machine give the same bits. false allows the attention library's "
               "atomics on CUDA, and NCCL's sums in the NVLink switch."),
      bind_choice("target.kind", {"cpu", "cuda"}, LLMC_FIELD(target.kind))
          .fallback("cpu")
          .doc("Kind of device that the trainer runs on."),
      bind("target.arch", Type::strings, LLMC_FIELD(target.arch))
          .or_single()
          .derived("native for cpu, 90a for cuda",
                   [](const Spec& s) -> std::optional<Value> {
                     return std::vector<std::string>{s.target.kind == TargetKind::cpu ? "native" : kCudaArch};
                   })
          .doc("cpu: one instruction set as g++ -march names it, native for this machine's. cuda: compute capabilities "
               "such as 80, 90a, 100."),
      bind_choice("target.attention", {"auto", "cudnn", "portable"}, LLMC_FIELD(target.attention))
          .fallback("auto")
          .when("target.kind", "cuda")
          .doc("What computes attention: cuDNN, or llmc's own kernels (portable), which take any even head_dim up to "
               "256. auto: cuDNN where it has the shape; with deterministic: true, backward by whichever is predicted "
               "to be faster."),
      bind("target.device", Type::string, LLMC_FIELD(target.device))
          .label()
          .path_or_name()
          .doc("What the planner predicts times for: a device that `llmc devices` lists, or a file in their format. "
               "Without one: for cuda the smallest device with target.arch; for cpu the device cpu, a "
               "processor with two cores unless a file of your own is called so (docs/explanation/planning.md)."),
      bind("seed", Type::integer, LLMC_FIELD(seed))
          .fallback("42")
          .run_time()
          .at_least(0)
          .doc("Seed of the initial weights and of sampling."),
  };
}

}  // namespace llmc::spec
