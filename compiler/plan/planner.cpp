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
    plan.layout = lay_out(plan.graph, spec, plan.parameters, plan.micro_batches());
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

/// Micro-batches to try, best first: those that leave every rank the same number, or where none does at least one.
std::vector<std::int64_t> micro_batch_choices(const spec::Spec& spec) {
  const std::int64_t sequences = spec.batch.tokens / spec.batch.sequence_length, ranks = spec.parallel.world_size;
  if (sequences % ranks == 0) return divisors_descending(sequences / ranks);
  std::vector<std::int64_t> choices;
  for (const std::int64_t size : divisors_descending(sequences))
    if (sequences / size >= ranks) choices.push_back(size);
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
  std::vector<std::int64_t> micro_batches = {spec.batch.micro_batch};
  if (!spec.batch.micro_batch) micro_batches = micro_batch_choices(spec);

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

/// Changes of a spec, and how they are said: "memory.recompute: full and memory.loss_chunk: auto".
struct Way {
  spec::Spec spec;
  std::string words;

  Way with(const std::string& said, auto change) const {
    Way changed{spec, words + (words.empty() ? "" : " and ") + said};
    change(changed.spec);
    return changed;
  }
  /// What the spec fixes of a pass is left to the planner.
  Way relaxed() const {
    Way way = *this;
    if (way.spec.batch.micro_batch > 1)
      way = way.with("batch.micro_batch: auto", [](spec::Spec& s) { s.batch.micro_batch = 0; });
    if (way.spec.memory.loss_chunk)
      way = way.with("memory.loss_chunk: auto", [](spec::Spec& s) { s.memory.loss_chunk = 0; });
    return way;
  }
  bool fits() const { return choose(spec).fits; }
};

/// What makes the run fit: each of these was planned, and fits.
std::string ways_out(const spec::Spec& spec, std::int64_t needed) {
  std::vector<std::string> ways;
  const auto try_one = [&](const Way& way) {
    const bool good = way.fits();
    if (good) ways.push_back(way.words);
    return good;
  };
  const Way as_is{spec, ""};
  // What ranks have for sharing out costs words on the wire, and neither computation nor a smaller model.
  const Shard shared = spec.parallel.shard;
  for (const auto& [shard, word] : {std::pair(Shard::optimizer, "optimizer"), std::pair(Shard::gradients, "gradients"),
                                    std::pair(Shard::parameters, "parameters")})
    if (spec.parallel.world_size > 1 && shard > shared &&
        try_one(
            as_is.with(fmt::format("parallel.shard: {}", word), [shard](spec::Spec& s) { s.parallel.shard = shard; })))
      break;
  if (spec.batch.micro_batch > 1)
    for (std::int64_t smaller : divisors_descending(spec.batch.tokens / spec.batch.sequence_length))
      if (smaller < spec.batch.micro_batch &&
          try_one(as_is.with(
              fmt::format("batch.micro_batch: {}", smaller), [&](spec::Spec& s) { s.batch.micro_batch = smaller; })))
        break;
  if (spec.memory.loss_chunk)
    try_one(as_is.with("memory.loss_chunk: auto", [](spec::Spec& s) { s.memory.loss_chunk = 0; }));
  if (ways.empty() && spec.memory.loss_chunk && spec.batch.micro_batch > 1) try_one(as_is.relaxed());
  const auto full = [](const Way& way) {
    return way.with("memory.recompute: full",
                    [](spec::Spec& s) { s.memory.recompute = {spec::Recompute::Kind::full, 0, {}}; });
  };
  const bool some_kept = spec.memory.recompute.kind != spec::Recompute::Kind::full;
  if (some_kept) {
    const Way some = as_is.with("memory.recompute: [norms, swiglu]", [](spec::Spec& s) {
      s.memory.recompute = {spec::Recompute::Kind::ops, 0, {"norms", "swiglu"}};
    });
    if (!try_one(some) && !try_one(full(as_is))) {
      const Way way = full(as_is).relaxed();
      if (way.words != full(as_is).words) try_one(way);
    }
  }
  for (std::int64_t length = spec.batch.sequence_length; ways.empty() && length % 2 == 0;) {
    length /= 2;
    const Way way = as_is
                        .with(fmt::format("batch.sequence_length: {}", length),
                              [&](spec::Spec& s) { s.batch.sequence_length = length; })
                        .relaxed();
    if (!try_one(way) && some_kept) try_one(full(way));
  }
  ways.push_back(fmt::format("memory.budget: {}", needed >= kGiB ? fmt::format("{}GiB", (needed + kGiB - 1) / kGiB)
                                                                 : fmt::format("{}MiB", (needed >> 20) + 1)));
  return fmt::format("write {}, where the device has it{}", fmt::join(ways, ", or "),
                     ways.size() > 1 ? "" : ", or make the model smaller");
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
