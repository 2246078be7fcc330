#include <fmt/format.h>

#include <algorithm>

#include "compiler/passes/pipeline.h"
#include "compiler/plan/cost.h"
#include "compiler/plan/layout.h"
#include "compiler/plan/parameters.h"
#include "compiler/plan/plan.h"
#include "compiler/plan/workspace.h"
#include "error.h"

namespace llmc::plan {
namespace {

// Each chunk reads the head's weight twice and its fp32 gradient once, and writes that: from this many rows on the time
// of it hides in the products' (docs/decisions.md).
constexpr std::int64_t kFastChunk = 8192;
constexpr std::int64_t kSmallestAutoChunk = 2048;  // fewer rows starve the head's matrix products

std::vector<std::int64_t> divisors_descending(std::int64_t n) {
  std::vector<std::int64_t> result;
  for (std::int64_t d = 1; d * d <= n; ++d)
    if (n % d == 0) {
      result.push_back(d);
      if (d != n / d) result.push_back(n / d);
    }
  std::sort(result.rbegin(), result.rend());
  return result;
}

/// Lowered and laid out for one choice of micro-batch and loss chunk.
Plan lay_out_choice(const spec::Spec& spec, std::int64_t micro_batch, std::int64_t chunk) {
  Plan plan;
  plan.spec = spec;
  plan.spec.batch.micro_batch = micro_batch;
  plan.spec.memory.loss_chunk = chunk;
  plan.graph = passes::lower(plan.spec, micro_batch, chunk, nullptr);
  plan.parameters = lay_out_parameters(plan.graph, plan.spec);
  size_workspaces(plan.graph, plan.parameters, plan.spec);
  plan.layout = lay_out(plan.graph, plan.parameters, plan.spec);
  return plan;
}

bool fits(const Plan& plan) { return plan.layout.arena.bytes <= static_cast<std::size_t>(plan.spec.memory.budget); }

/// Chunks to try, best first. `auto`: the smallest that costs no speed, then smaller ones, but not below what matrix
/// products need.
std::vector<std::int64_t> chunk_choices(const spec::Spec& spec, std::int64_t tokens) {
  if (spec.memory.loss_chunk) return {spec.memory.loss_chunk};
  std::vector<std::int64_t> choices;
  for (std::int64_t chunk : divisors_descending(tokens)) {
    if (chunk >= kFastChunk) choices.clear();  // the last one of these is the smallest
    if (chunk >= kSmallestAutoChunk || choices.empty()) choices.push_back(chunk);
  }
  return choices;
}

[[noreturn]] void refuse(const Plan& plan) {
  std::string largest;
  for (const Section& s : plan.layout.sections)
    largest += fmt::format("\n  {:>11.2f} MiB  {}", static_cast<double>(s.bytes) / (1u << 20), s.name);
  throw Failure(Exit::does_not_fit,
                fmt::format("this run needs {:.2f} MiB with micro_batch {} and loss_chunk {}, but memory.budget is {:.2f} MiB:{}\n"
                            "try a smaller batch.micro_batch or memory.loss_chunk{}",
                            static_cast<double>(plan.layout.arena.bytes) / (1u << 20), plan.spec.batch.micro_batch,
                            plan.spec.memory.loss_chunk, static_cast<double>(plan.spec.memory.budget) / (1u << 20), largest,
                            plan.spec.memory.recompute.kind == spec::Recompute::Kind::full ? "" : ", or more memory.recompute ([norms, swiglu], full)"));
}

}  // namespace

Plan make_plan(const spec::Spec& spec, const std::string& fingerprint) {
  const std::int64_t sequences = spec.batch.tokens / spec.batch.sequence_length;
  std::vector<std::int64_t> micro_batches = {spec.batch.micro_batch};
  if (!spec.batch.micro_batch) micro_batches = divisors_descending(sequences);

  Plan plan;
  bool found = false;
  for (std::int64_t micro_batch : micro_batches) {
    const std::int64_t tokens = micro_batch * spec.batch.sequence_length;
    if (spec.memory.loss_chunk && tokens % spec.memory.loss_chunk) continue;
    const std::vector<std::int64_t> chunks = chunk_choices(spec, tokens);
    for (std::size_t i = 0; i < chunks.size() && !found; ++i) {
      plan = lay_out_choice(spec, micro_batch, chunks[i]);
      found = fits(plan);
    }
    if (found) break;
  }
  if (plan.graph.regions.empty())
    throw Failure(Exit::spec, fmt::format("memory.loss_chunk {} divides no micro-batch of batch.tokens {}; "
                                          "write a divisor of batch.sequence_length ({}), or auto",
                                          spec.memory.loss_chunk, spec.batch.tokens, spec.batch.sequence_length));
  if (!found) refuse(plan);
  plan.fingerprint = fingerprint;
  list_work(plan);
  return plan;
}

}  // namespace llmc::plan
