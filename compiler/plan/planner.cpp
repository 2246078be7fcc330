#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "compiler/passes/choice.h"
#include "compiler/plan/plan.h"
#include "compiler/plan/search.h"
#include "error.h"
#include "program/shards.h"
#include "spec/fingerprint.h"
#include "spec/recompute.h"
#include "spec/relations/relations.h"
#include "spec/values.h"

namespace llmc::plan {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;
constexpr std::size_t kAlternatives = 3;  // listed by a plan in addition to the best

std::string size_text(std::int64_t bytes) {
  const auto exact = static_cast<double>(bytes);
  return bytes >= kGiB ? fmt::format("{:.2f} GiB", exact / kGiB) : fmt::format("{:.2f} MiB", exact / (1 << 20));
}

/// Changes of a spec and their text: "memory.recompute: full and memory.loss_chunk: auto".
struct Way {
  spec::Spec spec;
  std::string words;

  Way with(const std::string& said, auto change) const {
    Way changed{spec, words + (words.empty() ? "" : " and ") + said};
    change(changed.spec);
    return changed;
  }
  /// Leaves to the planner the keys of a pass that the spec fixes.
  Way relaxed() const {
    Way way = *this;
    if (way.spec.batch.micro_batch > 1)
      way = way.with("batch.micro_batch: auto", [](spec::Spec& s) { s.batch.micro_batch = 0; });
    if (way.spec.memory.loss_chunk)
      way = way.with("memory.loss_chunk: auto", [](spec::Spec& s) { s.memory.loss_chunk = 0; });
    return way;
  }
  bool fits() const { return planned_exit(spec) == Exit::done; }
};

/// Sets the number of ranks, with which the default of memory.budget changes: a given one remains.
void set_ranks(spec::Spec& spec, std::int64_t ranks) {
  const spec::Key& budget = *spec::find_key("memory.budget");
  const bool by_default = budget.get(spec) == *budget.derive(spec);
  spec.parallel.world_size = ranks;
  if (by_default) budget.set(spec, *budget.derive(spec));
}

Way automatic(const Way& way) {
  return way.with("memory.recompute: auto",
                  [](spec::Spec& s) { s.memory.recompute = {.kind = spec::Recompute::Kind::automatic}; });
}

/// Returns changes that make the run fit; each was planned.
std::string ways_out(const spec::Spec& spec, std::int64_t needed) {
  std::vector<std::string> ways;
  const auto try_one = [&](const Way& way) {
    const bool good = way.fits();
    if (good) ways.push_back(way.words);
    return good;
  };
  const Way as_is{spec, ""};
  // Sharding more costs traffic, but neither computation nor a smaller model, so it comes first.
  const bool shares = spec.parallel.world_size > 1 && !spec.parallel.shard_automatic;
  for (const Shard shard : shares ? possible_shards(spec) : std::vector<Shard>()) {
    if (shard <= spec.parallel.shard) continue;
    const auto share = [shard](spec::Spec& s) { s.parallel.shard = shard; };
    spec::Spec changed = spec;
    share(changed);
    if (try_one(as_is.with("parallel.shard: " + spec::text_of("parallel.shard", changed), share))) break;
  }
  // A trainer on a cpu holds all evaluated tokens (process.cpp). With fewer of them the trained weights are the same.
  const auto evaluating = [&](std::int64_t sequences) {
    return as_is.with(fmt::format("evaluation.sequences: {}", sequences),
                      [sequences](spec::Spec& s) { s.evaluation.sequences = sequences; });
  };
  if (spec.target.kind == spec::TargetKind::cpu && spec.evaluation.sequences > 1 && evaluating(1).fits())
    for (std::int64_t fewer = spec.evaluation.sequences / 2; !try_one(evaluating(fewer)); fewer /= 2) {
    }
  if (spec.batch.micro_batch > 1)
    for (std::int64_t smaller : micro_batch_sizes(spec.batch.tokens / spec.batch.sequence_length))
      if (smaller < spec.batch.micro_batch &&
          try_one(as_is.with(
              fmt::format("batch.micro_batch: {}", smaller), [&](spec::Spec& s) { s.batch.micro_batch = smaller; })))
        break;
  if (spec.memory.loss_chunk)
    try_one(as_is.with("memory.loss_chunk: auto", [](spec::Spec& s) { s.memory.loss_chunk = 0; }));
  if (ways.empty() && spec.memory.loss_chunk && spec.batch.micro_batch > 1) try_one(as_is.relaxed());
  const bool fixed = spec.memory.recompute.kind != spec::Recompute::Kind::automatic;
  if (fixed && !try_one(automatic(as_is))) {
    const Way way = automatic(as_is).relaxed();
    if (way.words != automatic(as_is).words) try_one(way);
  }
  for (std::int64_t length = spec.batch.sequence_length; ways.empty() && length % 2 == 0;) {
    length /= 2;
    const Way way = as_is
                        .with(fmt::format("batch.sequence_length: {}", length),
                              [&](spec::Spec& s) { s.batch.sequence_length = length; })
                        .relaxed();
    if (!try_one(way) && fixed) try_one(automatic(way));
  }
  if (spec.compute == DType::bf16 && spec.master == spec::Masters::fp32)
    try_one(as_is.with("precision.master: split", [](spec::Spec& s) { s.master = spec::Masters::split; }));
  // Last, because it changes the run's numbers.
  if (spec.optimizer.kind == OptimizerKind::adamw && spec.optimizer_state == spec::OptimizerState::fp32)
    try_one(as_is.with("precision.optimizer_state: int8",
                       [](spec::Spec& s) { s.optimizer_state = spec::OptimizerState::int8; }));
  ways.push_back("memory.budget: " + budget_text(needed));
  return fmt::format("write {}, if the device has that much{}", fmt::join(ways, ", or "),
                     ways.size() > 1 ? "" : ", or make the model smaller");
}

/// Finds the smallest change with which the run fits on `ranks` devices: sharding, then the spec's fixed keys of a
/// pass, then recomputation.
std::optional<Way> on_ranks(const spec::Spec& spec, std::int64_t ranks) {
  const std::int64_t sequences = spec.batch.tokens / spec.batch.sequence_length;
  for (const int changed : {0, 1, 2})
    for (const Shard shard : possible_shards(spec)) {
      if (shard == Shard::none) continue;
      spec::Spec sharding = spec;
      sharding.parallel.shard = shard;
      Way way = Way{spec, ""}.with(fmt::format("parallel.world_size: {} and parallel.shard: {}", ranks,
                                               spec::text_of("parallel.shard", sharding)),
                                   [&](spec::Spec& s) {
                                     set_ranks(s, ranks);
                                     s.parallel.shard = shard;
                                     s.parallel.shard_automatic = false;
                                   });
      if (changed > 0) way = way.relaxed();
      if (changed > 1) way = automatic(way);
      if (sequences / std::max<std::int64_t>(way.spec.batch.micro_batch, 1) >= ranks && way.fits()) return way;
    }
  return {};
}

/// Returns "on several devices it fits from 4 on, with parallel.world_size: 4 and ..." on a separate line; empty if no
/// possible number of ranks makes it fit.
std::string ranks_that_fit(const spec::Spec& spec) {
  if (spec.target.kind != spec::TargetKind::cuda) return {};  // ranks on a processor share its memory
  const std::int64_t most = std::min<std::int64_t>(spec.batch.tokens / spec.batch.sequence_length, kMostRanks);
  // Brackets the number by the choice of fewest bytes, which is quick to lay out.
  const auto fits = [&](std::int64_t ranks) {
    spec::Spec least = spec;
    set_ranks(least, ranks);
    least.parallel.shard = possible_shards(spec).back();
    least.parallel.shard_automatic = false;
    if (least.batch.micro_batch) least.batch.micro_batch = spec.sequence_multiple();
    least.memory.loss_chunk = 0;
    least.memory.recompute = {.kind = spec::Recompute::Kind::full};
    return planned_exit(least) == Exit::done;
  };
  std::int64_t few = 1, enough = 1;
  do {
    if (enough == most) return {};
    few = enough;
    enough = std::min(2 * few, most);
  } while (!fits(enough));
  while (enough - few > 1) {
    const std::int64_t middle = few + (enough - few) / 2;
    (fits(middle) ? enough : few) = middle;
  }
  const std::optional<Way> way = on_ranks(spec, enough);
  return way ? fmt::format("\nit fits on {} or more devices with {}", enough, way->words) : "";
}

[[noreturn]] void refuse(const spec::Spec& spec, const Plan& plan) {
  const auto needed = static_cast<std::int64_t>(plan.needed_bytes());
  std::string largest;
  for (const Section& s : plan.layout.sections)
    largest += fmt::format("\n  {:>12}  {}", size_text(static_cast<std::int64_t>(s.bytes)), s.name);
  if (plan.process_bytes)
    largest += fmt::format("\n  {:>12}  the process outside its arena",
                           size_text(static_cast<std::int64_t>(plan.process_bytes)));
  throw Failure(Exit::does_not_fit,
                fmt::format("this run needs {} with micro_batch {} and loss_chunk {}, but memory.budget is {}:{}\n{}{}",
                            size_text(needed), plan.choice.micro_batch, plan.choice.loss_chunk,
                            size_text(spec.memory.budget), largest, ways_out(spec, needed), ranks_that_fit(spec)));
}

}  // namespace

std::string budget_text(std::int64_t bytes) {
  return bytes >= kGiB ? fmt::format("{}GiB", (bytes + kGiB - 1) / kGiB) : fmt::format("{}MiB", (bytes >> 20) + 1);
}

spec::Spec chosen_spec(const Plan& plan) {
  spec::Spec spec = plan.spec;
  spec.batch.micro_batch = plan.choice.micro_batch;
  spec.memory.loss_chunk = plan.choice.loss_chunk;
  if (spec.memory.recompute.kind == spec::Recompute::Kind::automatic)
    spec.memory.recompute = passes::recompute_from(plan.choice.recompute, spec.model);
  spec.parallel.shard_automatic = false;
  return spec;
}

Plan make_plan(const spec::Spec& spec) {
  Search search(spec);
  std::optional<Plan> plan = search.best(kAlternatives);
  if (!plan) refuse(spec, search.least());
  plan->fingerprint = spec::fingerprint(chosen_spec(*plan));
  return std::move(*plan);
}

std::optional<Plan> fastest_plan(const spec::Spec& spec) {
  if (!spec::relations_hold(spec)) return {};
  try {
    return Search(spec).best(0);
  } catch (const Failure& failure) {
    if (failure.code() != Exit::spec) throw;
    return {};
  }
}

Exit planned_exit(const spec::Spec& spec) {
  if (!spec::relations_hold(spec)) return Exit::spec;
  try {
    return Search(spec).fits_somehow() ? Exit::done : Exit::does_not_fit;
  } catch (const Failure& failure) {
    if (failure.code() == Exit::internal) throw;
    return failure.code();
  }
}

}  // namespace llmc::plan
