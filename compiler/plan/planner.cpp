#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/passes/pipeline.h"
#include "compiler/plan/cost.h"
#include "compiler/plan/layout.h"
#include "compiler/plan/parameters.h"
#include "compiler/plan/plan.h"
#include "error.h"
#include "spec/fingerprint.h"

namespace llmc::plan {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;
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

/// What the graph leaves open: tensors of all parameters, and memory that an op wants beside its results.
void size_tensors(Plan& plan) {
  size_flat(plan.graph, plan.parameters);
  for (const graph::Region& region : plan.graph.regions)
    for (const graph::Op& op : region.ops)
      ops::row_of(op.kind).scratch(plan.graph, op, plan.spec, plan.parameters, plan.attention);
}

bool fits(const Plan& plan) { return plan.layout.bytes <= static_cast<std::size_t>(plan.spec.memory.budget); }

/// Lowered and laid out for one choice, with those of attention's backward passes that fit.
Plan lay_out_choice(const spec::Spec& spec, const passes::Choice& choice) {
  Plan plan;
  plan.spec = spec;
  plan.choice = choice;
  plan.graph = passes::lower(spec, choice, nullptr);
  plan.parameters = lay_out_parameters(plan.graph, spec);
  if (spec.target.kind == spec::TargetKind::cuda) plan.attention = ops::choose_attention(plan.graph, spec);
  do {
    size_tensors(plan);
    plan.layout = lay_out(plan.graph, spec, plan.micro_batches());
  } while (!fits(plan) && plan.attention.leave_out_largest());
  return plan;
}

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

std::string size_text(std::int64_t bytes) {
  const auto exact = static_cast<double>(bytes);
  return bytes >= kGiB ? fmt::format("{:.2f} GiB", exact / kGiB) : fmt::format("{:.2f} MiB", exact / (1 << 20));
}

/// The plan of the best choice that fits, or of the smallest there is. Without regions: no micro-batch has whole
/// chunks.
struct Best {
  Plan plan;
  bool fits = false;
};

Best choose(const spec::Spec& spec) {
  passes::Choice choice = passes::choice_of(spec);
  const std::int64_t sequences = spec.batch.tokens / spec.batch.sequence_length;
  std::vector<std::int64_t> micro_batches = {spec.batch.micro_batch};
  if (!spec.batch.micro_batch) micro_batches = divisors_descending(sequences);

  Best best;
  for (std::int64_t micro_batch : micro_batches) {
    const std::int64_t tokens = micro_batch * spec.batch.sequence_length;
    if (spec.memory.loss_chunk && tokens % spec.memory.loss_chunk) continue;
    for (std::int64_t chunk : chunk_choices(spec, tokens)) {
      choice.micro_batch = micro_batch;
      choice.loss_chunk = chunk;
      best.plan = lay_out_choice(spec, choice);
      best.fits = fits(best.plan);
      if (best.fits) return best;
    }
  }
  return best;
}

/// What makes the run fit: each of these was planned, and fits.
std::string ways_out(const spec::Spec& spec, std::int64_t needed) {
  std::vector<std::string> ways;
  const auto try_one = [&](const spec::Spec& changed, const std::string& words) {
    const bool good = choose(changed).fits;
    if (good) ways.push_back(words);
    return good;
  };
  if (spec.batch.micro_batch > 1)
    for (std::int64_t smaller : divisors_descending(spec.batch.tokens / spec.batch.sequence_length)) {
      spec::Spec changed = spec;
      changed.batch.micro_batch = smaller;
      if (smaller < spec.batch.micro_batch && try_one(changed, fmt::format("batch.micro_batch: {}", smaller))) break;
    }
  if (spec.memory.loss_chunk) {
    spec::Spec changed = spec;
    changed.memory.loss_chunk = 0;
    try_one(changed, "memory.loss_chunk: auto");
  }
  if (spec.memory.recompute.kind != spec::Recompute::Kind::full) {
    spec::Spec some = spec, all = spec;
    some.memory.recompute = {spec::Recompute::Kind::ops, 0, {"norms", "swiglu"}};
    all.memory.recompute = {spec::Recompute::Kind::full, 0, {}};
    if (!try_one(some, "memory.recompute: [norms, swiglu]") && !try_one(all, "memory.recompute: full") &&
        (spec.batch.micro_batch > 1 || spec.memory.loss_chunk)) {
      all.batch.micro_batch = 0;
      all.memory.loss_chunk = 0;
      try_one(all, "memory.recompute: full with micro_batch and loss_chunk auto");
    }
  }
  ways.push_back(fmt::format("memory.budget: {}", needed >= kGiB ? fmt::format("{}GiB", (needed + kGiB - 1) / kGiB)
                                                                 : fmt::format("{}MiB", (needed >> 20) + 1)));
  return fmt::format("write {}, where the device has it{}", fmt::join(ways, ", or "),
                     ways.size() > 1 ? "" : ", or make the model or the sequences smaller");
}

[[noreturn]] void refuse(const spec::Spec& spec, const Plan& plan) {
  const auto needed = static_cast<std::int64_t>(plan.layout.bytes);
  std::string largest;
  for (const Section& s : plan.layout.sections)
    largest += fmt::format("\n  {:>12}  {}", size_text(static_cast<std::int64_t>(s.bytes)), s.name);
  throw Failure(Exit::does_not_fit,
                fmt::format("this run needs {} with micro_batch {} and loss_chunk {}, but memory.budget is {}:{}\n{}",
                            size_text(needed), plan.choice.micro_batch, plan.choice.loss_chunk,
                            size_text(spec.memory.budget), largest, ways_out(spec, needed)));
}

}  // namespace

spec::Spec chosen_spec(const Plan& plan) {
  spec::Spec spec = plan.spec;
  spec.batch.micro_batch = plan.choice.micro_batch;
  spec.memory.loss_chunk = plan.choice.loss_chunk;
  return spec;
}

Plan make_plan(const spec::Spec& spec) {
  Best best = choose(spec);
  if (best.plan.graph.regions.empty())
    throw Failure(Exit::spec, fmt::format("memory.loss_chunk {} divides no micro-batch of batch.tokens {}; "
                                          "write a divisor of batch.sequence_length ({}), or auto",
                                          spec.memory.loss_chunk, spec.batch.tokens, spec.batch.sequence_length));
  if (!best.fits) refuse(spec, best.plan);
  best.plan.fingerprint = spec::fingerprint(chosen_spec(best.plan));
  list_work(best.plan);
  return std::move(best.plan);
}

Exit planned_exit(const spec::Spec& spec) {
  try {
    const Best best = choose(spec);
    if (best.plan.graph.regions.empty()) return Exit::spec;
    return best.fits ? Exit::done : Exit::does_not_fit;
  } catch (const Failure& failure) {
    return failure.code();
  }
}

}  // namespace llmc::plan
