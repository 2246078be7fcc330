#include "compiler/plan/process.h"

#include <algorithm>

#include "device/cpu/arch.h"
#include "device/cpu/column_memory.h"
#include "spec/validation_sets.h"

namespace llmc::plan {

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

// Measured (docs/reference/benchmarks.md, Memory; two threads): 15 to 17 MiB of code, libraries and heap.
constexpr std::size_t kProgram = 20 * kMiB;
// oneDNN's scratchpad, which the runtime keeps below 16 MiB (runtime/math/onednn/gemm.cpp).
constexpr std::size_t kScratchpad = 16 * kMiB;
// Copies of operands below AVX-512, which oneDNN allocates in each call: the heap keeps up to 40 MiB of them, with two
// threads, and they replace the scratchpad (docs/explanation/planning.md).
constexpr std::size_t kHeapOfCopies = 24 * kMiB;
// Per thread: its stack, and operands that oneDNN copies.
constexpr std::size_t kThread = 2 * kMiB;

// Per token of a batch: its entries in the five arrays of a MicroBatch (data/micro_batch.h).
constexpr std::size_t kTokenBytes = 5 * sizeof(std::int32_t);
constexpr std::size_t kDocumentBytes = 2 * sizeof(std::int32_t);  // and in those of documents
// Of a mixture: its order (data/order/mixture.h), and counts of each source.
constexpr std::size_t kMixture = 2 * kMiB, kMixtureSource = 16 << 10;
constexpr std::size_t kBatches = 5;  // the step's, the prepared ones, the one in preparation, and one free for reuse

/// Bytes of a thread's row of logits in fp32 that a stack does not hold. Capped logits are a row of their own.
std::size_t row_on_heap(const spec::Model& model) {
  const std::size_t bytes = static_cast<std::size_t>(model.vocab_size) * sizeof(float);
  return bytes <= kMostOnStack ? 0 : bytes * (model.final_logit_softcapping > 0 ? 2 : 1);
}

}  // namespace

std::size_t process_bytes(const Plan& plan) {
  const spec::Spec& spec = plan.spec;
  if (spec.target.kind == spec::TargetKind::cuda) return 0;
  const auto size = [](std::int64_t count) { return static_cast<std::size_t>(count); };
  const std::size_t step = size(plan.rank_micro_batches() * plan.choice.micro_batch * spec.batch.sequence_length);
  const auto divided_up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const std::int64_t evaluated_batches =
      divided_up(divided_up(spec.evaluation.sequences, plan.choice.micro_batch), spec.parallel.world_size);
  const std::size_t evaluated = spec::validation_sets(spec.data).size() *
                                size(std::min(spec.evaluation.sequences, evaluated_batches * plan.choice.micro_batch)) *
                                size(spec.batch.sequence_length);
  const std::size_t sampled =
      spec.sampling.prompts.empty() ? 0 : size(plan.choice.micro_batch * spec.model.vocab_size) * sizeof(float);
  const bool divided = spec.data.documents.mask || spec.data.documents.mask_first;
  const bool copies = spec.target.arch.empty() || !arch_has_avx512(spec.target.arch.front());
  return kProgram + kScratchpad + (copies ? kHeapOfCopies : 0) +
         size(static_cast<std::int64_t>(plan.device[devices::Figure::processors])) *
             (kThread + row_on_heap(spec.model)) +
         (kBatches * step + evaluated) * (kTokenBytes + (divided ? kDocumentBytes : 0)) + sampled +
         (spec.data.mixture.empty() ? 0 : kMixture + spec.data.mixture.size() * kMixtureSource);
}

}  // namespace llmc::plan
