// Keys outside of the step: data, evaluation, samples, checkpoints, guards, ranks, the target.
#include "program/shards.h"
#include "spec/schema/rows.h"

namespace llmc::spec {

std::vector<Row> surrounding_rows() {
  const char* kValidation = "data.validation";
  const char* kPrompts = "sampling.prompts";
  const char* kMirror = "checkpoint.mirror";
  const std::vector<std::string> kFormats = {"auto", "llmc", "nanogpt", "nanogpt32", "megatron"};
  return {
      bind("data.tokenizer", Type::string, LLMC_FIELD(data.tokenizer))
          .run_time()
          .path()
          .doc("sentencepiece model that encodes prompts and decodes samples, or a Hugging Face tokenizer.json, which "
               "decodes them; without one both are token ids."),
      bind("data.train.path", Type::string, LLMC_FIELD(data.train.path))
          .required()
          .run_time()
          .path()
          .doc("Token shards; * and ? match in the last part. Sorted by name."),
      bind("data.train.format", Type::choice, LLMC_FIELD(data.train.format))
          .aside()
          .words(kFormats)
          .fallback("auto")
          .run_time()
          .doc("auto reads the header; raw files have none and must be named: nanogpt is uint16, nanogpt32 is uint32, "
               "as OLMo "
               "and dolma write them."),
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
      bind("data.validation.NAME", Type::named_paths, LLMC_FIELD(data.validation_sets))
          .run_time()
          .path()
          .doc(
              "More held-out shards, each under a name of yours: letters, digits, - and _, at most 32, a letter first. "
              "In a file `validation: {web: \"web-*.bin\", code: \"code-*.bin\"}`, with path: among them or without."),
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
          .doc("Samples of one evaluation, of each validation set."),
      bind_choice("audit.compute", {"none", "logits", "forward"}, LLMC_FIELD(audit.compute))
          .aside()
          .newer()
          .fallback("none")
          .doc(
              "What a second computation of a step's loss has in fp32, to tell whether the first is right. logits: the "
              "logits and the loss. forward: the whole pass, from the master weights on. none: there "
              "is no audit, and what it takes is not in the trainer. Cost and memory: docs/reference/guards.md."),
      bind("audit.every", Type::integer, LLMC_FIELD(audit.every))
          .aside()
          .fallback("500")
          .run_time()
          .when("audit.compute", "*")
          .range(0, kMaxSteps)
          .unit("steps")
          .doc("Steps between audits; the first step has one, too. 0: none."),
      bind("audit.bound", Type::number, LLMC_FIELD(audit.bound))
          .aside()
          .fallback("0.02")
          .run_time()
          .when("audit.compute", "*")
          .range(0, 1e6)
          .unit("nats")
          .doc("A loss further than this from its audit causes a warning, once until one is nearer. Its seed: "
               "docs/reference/guards.md."),
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
          .doc("Beginnings that the model continues; without any there is no sampling."),
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
          .doc("0: the likeliest token, always."),
      bind("sampling.top_p", Type::number, LLMC_FIELD(sampling.top_p))
          .aside()
          .fallback("1")
          .run_time()
          .when(kPrompts, "*")
          .above(0)
          .at_most(1)
          .doc("Draws from the nucleus alone: the fewest of the likeliest tokens that have together this probability."),
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
          .doc("Newest checkpoints that are kept."),
      bind("checkpoint.keep_every", Type::integer, LLMC_FIELD(checkpoint.keep_every))
          .aside()
          .fallback("0")
          .run_time()
          .range(0, kMaxSteps)
          .unit("steps")
          .doc("Checkpoints at multiples of it are kept for good; 0: none. A multiple of every."),
      bind("checkpoint.best", Type::string, LLMC_FIELD(checkpoint.best))
          .aside()
          .fallback("none")
          .run_time()
          .when(kValidation, "*")
          .doc("validation, which is that of data.validation.path, or the name of another validation set: each "
               "evaluation with its lowest loss so far is saved, and the newest of these checkpoints is kept whatever "
               "keep_last says."),
      bind("checkpoint.asynchronous", Type::boolean, LLMC_FIELD(checkpoint.asynchronous))
          .aside()
          .fallback("true")
          .run_time()
          .doc("A checkpoint is written while training continues, from a snapshot in the host's memory. On cpu only "
               "where "
               "memory.budget has room for it. false: training waits."),
      bind("checkpoint.verify", Type::boolean, LLMC_FIELD(checkpoint.verify))
          .aside()
          .fallback("false")
          .run_time()
          .doc("Reads every file of a checkpoint back from the disk before the checkpoint appears."),
      bind(kMirror, Type::string, LLMC_FIELD(checkpoint.mirror))
          .run_time()
          .path()
          .doc("A second folder for the checkpoints of this run alone, on another disk; --resume takes it as it takes "
               "a run "
               "folder."),
      bind("checkpoint.mirror_every", Type::integer, LLMC_FIELD(checkpoint.mirror_every))
          .aside()
          .fallback("1")
          .run_time()
          .when(kMirror, "*")
          .range(1, 1e6)
          .doc("Steps from one copy to the next, in multiples of checkpoint.every. 1: every checkpoint is copied."),
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
          .doc("Norms of every weight, gradient and update."),
      bind("metrics.product_share", Type::boolean, LLMC_FIELD(metrics.product_share))
          .aside()
          .fallback("true")
          .run_time()
          .doc(
              "A large product of the model is timed at start, and metrics.jsonl has which share of its rate the steps "
              "have."),
      bind("guards.loss", Type::number, LLMC_FIELD(guards.loss))
          .aside()
          .fallback("10")
          .run_time()
          .range(0, 1e6)
          .unit("spreads")
          .doc("A loss whose logarithm is above the median of the window by more than so many spreads skips the update "
               "on "
               "the device; 0: none does. Spread, and the seed of each threshold: docs/reference/guards.md."),
      bind("guards.grad_norm", Type::number, LLMC_FIELD(guards.grad_norm))
          .aside()
          .fallback("20")
          .run_time()
          .range(0, 1e6)
          .unit("spreads")
          .doc("The same for the gradient's norm, where it is above optimizer.clip_norm too; 0: none does."),
      bind("guards.window", Type::integer, LLMC_FIELD(guards.window))
          .aside()
          .fallback("200")
          .run_time()
          .range(1, 10000)
          .unit("steps")
          .doc("Applied steps that make up the window."),
      bind("guards.judge_after", Type::integer, LLMC_FIELD(guards.judge_after))
          .aside()
          .fallback("100")
          .run_time()
          .range(1, 10000)
          .unit("steps")
          .doc("Applied steps before the first is judged; where the window is shorter, so many."),
      bind("guards.limit_in_a_row", Type::integer, LLMC_FIELD(guards.limit_in_a_row))
          .aside()
          .fallback("10")
          .run_time()
          .range(1, 10000)
          .unit("steps")
          .doc("So many skipped updates in a row end the run with exit code 7."),
      bind("guards.limit", Type::integer, LLMC_FIELD(guards.limit))
          .aside()
          .fallback("20")
          .run_time()
          .range(1, 10000)
          .unit("steps")
          .doc("So many skipped updates among the last limit_steps do, too."),
      bind("guards.limit_steps", Type::integer, LLMC_FIELD(guards.limit_steps))
          .aside()
          .fallback("200")
          .run_time()
          .range(1, 10000)
          .unit("steps")
          .doc("The steps that limit is about."),
      bind("guards.rollback", Type::boolean, LLMC_FIELD(guards.rollback))
          .aside()
          .fallback("false")
          .run_time()
          .doc("In place of ending: back to the newest checkpoint from before the first of the skipped updates, and on "
               "with the samples after them."),
      bind("guards.rollbacks", Type::integer, LLMC_FIELD(guards.rollbacks))
          .aside()
          .fallback("3")
          .run_time()
          .range(1, 1000)
          .doc("After so many the run ends with exit code 7 all the same. Only with guards.rollback."),
      bind("guards.log_text", Type::boolean, LLMC_FIELD(guards.log_text))
          .aside()
          .fallback("false")
          .run_time()
          .doc("Warnings show how the samples of a skipped update begin, decoded by data.tokenizer."),
      bind("guards.frozen_steps", Type::integer, LLMC_FIELD(guards.frozen_steps))
          .aside()
          .fallback("100")
          .run_time()
          .range(0, 1e6)
          .unit("steps")
          .doc("A loss that has stood still for so many steps is warned of, once; 0: never."),
      bind("guards.frozen_change", Type::number, LLMC_FIELD(guards.frozen_change))
          .aside()
          .fallback("1e-06")
          .run_time()
          .range(0, 1)
          .doc("Standing still: all of these losses within this part of the largest."),
      bind("parallel.world_size", Type::integer, LLMC_FIELD(parallel.world_size))
          .aside()
          .fallback("1")
          .range(1, kMostRanks)
          .unit("ranks")
          .doc("Processes, one a GPU, that the plan is made for: micro_batch: auto leaves each its part of a step, and "
               "memory.budget is one rank's. The trainer runs with any number that has work for all."),
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
          .doc("In what ranks send gradients to each other. bf16: half the bytes, each rank's gradients of a block are "
               "rounded once before they are summed. They are accumulated over micro-batches in fp32 in both cases."),
      bind("parallel.reserved_sms", Type::integer, LLMC_FIELD(parallel.reserved_sms))
          .fallback("0")
          .when("target.kind", "cuda")
          .range(0, 64)
          .unit("SMs")
          .doc("With several ranks: how many of a GPU's SMs matrix products leave to the collectives that overlap with "
               "them. 0: none, and collectives begin where a product's blocks end. Measure before another number: "
               "products are slower by what they leave."),
      bind("parallel.compare_every", Type::integer, LLMC_FIELD(parallel.compare_every))
          .aside()
          .fallback("100")
          .run_time()
          .range(0, kMaxSteps)
          .unit("steps")
          .doc("Steps between comparisons of what several ranks have alike, by checksums; one more comes before each "
               "save. Where a rank differs, all end with exit code 7 and nothing is saved. 0: never."),
      bind("deterministic", Type::boolean, LLMC_FIELD(deterministic))
          .fallback("true")
          .doc("Equal runs give equal bits. false allows the attention library's atomics on CUDA, and NCCL's sums in "
               "the NVLink switch."),
      bind_choice("target.kind", {"cpu", "cuda"}, LLMC_FIELD(target.kind))
          .fallback("cpu")
          .doc("What the trainer runs on."),
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
          .doc("Initial weights and sampling."),
  };
}

}  // namespace llmc::spec
