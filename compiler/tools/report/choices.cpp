#include "compiler/tools/report/choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "compiler/plan/search.h"
#include "error.h"
#include "spec/recompute.h"
#include "spec/schema/schema.h"
#include "spec/values.h"

namespace llmc::report {

namespace {

using graph::RecomputeGroup;
using graph::RecomputeGroups;
using plan::Plan;
using spec::Recompute;

constexpr std::ptrdiff_t kLarger = 2, kSmaller = 3;  // micro-batches to try in addition to the plan's
constexpr const char* kOpen[] = {"batch.micro_batch", "memory.loss_chunk", "memory.recompute", "parallel.shard"};

std::vector<std::int64_t> micro_batches_near(const Plan& plan) {
  const std::int64_t sequences = plan.sequences_per_step(), ranks = plan.spec.parallel.world_size;
  const std::vector<std::int64_t> all = plan::micro_batch_sizes(sequences % ranks ? sequences : sequences / ranks);
  const auto at = std::ranges::find(all, plan.choice.micro_batch);
  if (at == all.end()) return {plan.choice.micro_batch};
  return {at - std::min(kLarger, at - all.begin()), at + std::min(kSmaller + 1, all.end() - at)};
}

/// Returns recompute settings from none to full, and the plan's.
std::vector<Recompute> recomputations(const Plan& plan) {
  const auto of = [&](std::initializer_list<RecomputeGroup> groups) {
    RecomputeGroups all = 0;
    for (const RecomputeGroup group : groups) all |= static_cast<RecomputeGroups>(group);
    return passes::recompute_from(std::vector(plan.choice.recompute.size(), all), plan.spec.model);
  };
  return {plan::chosen_spec(plan).memory.recompute,
          Recompute{.kind = Recompute::Kind::none},
          of({RecomputeGroup::norms, RecomputeGroup::swiglu}),
          of({RecomputeGroup::norms, RecomputeGroup::gate_up, RecomputeGroup::swiglu}),
          Recompute{.kind = Recompute::Kind::every, .every = 2},
          Recompute{.kind = Recompute::Kind::full}};
}

std::vector<spec::Spec> specs_near(const Plan& plan) {
  std::vector<spec::Spec> specs;
  spec::Spec base = plan.spec;  // an open loss chunk stays open
  base.memory.budget = std::numeric_limits<std::int64_t>::max();
  base.parallel.shard_automatic = false;
  for (const std::int64_t micro_batch : micro_batches_near(plan))
    for (const Recompute& recompute : recomputations(plan)) {
      base.batch.micro_batch = micro_batch;
      base.memory.recompute = recompute;
      specs.push_back(base);
    }
  if (plan.spec.parallel.world_size == 1) return specs;
  base.batch.micro_batch = plan.choice.micro_batch;
  base.memory.recompute = plan::chosen_spec(plan).memory.recompute;
  for (const Shard shard : plan::possible_shards(plan.spec)) {
    base.parallel.shard = shard;
    specs.push_back(base);
  }
  return specs;
}

}  // namespace

std::string choice_difference(const spec::Spec& chosen, const spec::Spec& other) {
  std::string text;
  for (const char* path : kOpen)
    if (const std::string word = spec::text_of(path, other); word != spec::text_of(path, chosen))
      text += fmt::format("{}{}: {}", text.empty() ? "" : " and ", path, word);
  return text;
}

std::vector<PricedChoice> choices_near(const Plan& plan) {
  const spec::Spec chosen = plan::chosen_spec(plan);
  std::vector<PricedChoice> list{{chosen, plan.cost.time.seconds, plan.layout.bytes, true, true}};
  std::set<std::string> known{choice_difference(chosen, chosen)};
  const auto add = [&](const spec::Spec& spec, double seconds, std::size_t bytes, bool fits) {
    // A choice that differs in its loss chunk alone counts as the plan's own, because another budget may give another
    // chunk.
    spec::Spec same_chunk = spec;
    same_chunk.memory.loss_chunk = chosen.memory.loss_chunk;
    const bool is_chunk = choice_difference(chosen, same_chunk).empty();
    if (known.insert(choice_difference(chosen, is_chunk ? chosen : spec)).second)
      list.push_back({spec, seconds, bytes, fits});
  };
  for (const plan::Alternative& other : plan.alternatives) add(other.spec, other.seconds, other.bytes, true);
  for (const spec::Spec& spec : specs_near(plan)) {
    const std::optional<Plan> other = plan::fastest_plan(spec);
    if (!other) continue;  // a loss chunk that does not divide it
    add(plan::chosen_spec(*other), other->cost.time.seconds, other->layout.bytes,
        other->needed_bytes() <= static_cast<std::size_t>(plan.spec.memory.budget));
  }
  for (PricedChoice& choice : list)
    choice.front = std::ranges::none_of(list, [&](const PricedChoice& other) {
      return (other.seconds < choice.seconds && other.bytes <= choice.bytes) ||
             (other.seconds <= choice.seconds && other.bytes < choice.bytes);
    });
  return list;
}

}  // namespace llmc::report
