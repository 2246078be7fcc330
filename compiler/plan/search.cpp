#include "compiler/plan/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "compiler/passes/pipeline.h"
#include "compiler/plan/cost.h"
#include "compiler/plan/layout.h"
#include "compiler/plan/parameters.h"
#include "compiler/plan/process.h"
#include "compiler/plan/step_time.h"
#include "error.h"
#include "spec/relations/relations.h"
#include "spec/targets.h"

namespace llmc::plan {

using graph::LayerKind;
using graph::RecomputeGroups;

namespace {

// Each chunk reads the head's weight twice and its fp32 gradient once, and writes that: from this many rows on the time
// of it hides in the products' (docs/explanation/compiler.md).
constexpr std::int64_t kFastChunk = 8192;
constexpr std::int64_t kSmallestAutoChunk = 2048;  // fewer rows starve the head's matrix products

// Fraction of the layers' time. A backward pass of attention is left out if the room of its workspace saves more: less
// is within the time model's error, and `trainer tune` may find that pass to be the faster one.
constexpr double kWorthAWay = 0.005;

constexpr int kMostTries = 32;  // of choices whose packing may take more than the solver has counted

/// Returns the chunks to try. `auto`: the smallest one without loss of speed, then smaller ones, but not below the
/// minimum of matrix products.
std::vector<std::int64_t> chunk_choices(const spec::Spec& spec, std::int64_t tokens) {
  if (spec.memory.loss_chunk) {
    if (tokens % spec.memory.loss_chunk) return {};
    return {spec.memory.loss_chunk};
  }
  std::vector<std::int64_t> choices;
  for (std::int64_t chunk : micro_batch_sizes(tokens)) {
    if (chunk < tokens && chunk % spec::chunk_multiple(spec)) continue;
    if (chunk >= kFastChunk) choices.clear();  // the last one of these is the smallest
    if (chunk >= kSmallestAutoChunk || choices.empty()) choices.push_back(chunk);
  }
  return choices;
}

/// Returns the micro-batches to try: those that give every rank the same number; if there are none, at least one per
/// rank. Without those whose rows are too many to count, which a spec may not name either.
std::vector<std::int64_t> micro_batch_choices(const spec::Spec& spec) {
  if (spec.batch.micro_batch) return {spec.batch.micro_batch};
  const std::int64_t sequences = spec.batch.tokens / spec.batch.sequence_length, ranks = spec.parallel.world_size;
  const bool even = sequences % ranks == 0;
  std::vector<std::int64_t> choices = micro_batch_sizes(even ? sequences / ranks : sequences);
  std::erase_if(choices, [&](std::int64_t size) {
    return size > spec::most_micro_batch(spec) || (!even && sequences / size < ranks);
  });
  return choices;
}

std::vector<Shard> shard_choices(const spec::Spec& spec) {
  if (!spec.parallel.shard_automatic) return {spec.parallel.shard};
  if (spec.parallel.world_size == 1) return {Shard::optimizer};  // equivalent for one rank
  return possible_shards(spec);
}

/// Sizes tensors of all parameters, and the scratch memory of ops.
void size_tensors(Plan& plan) {
  size_flat(plan.graph, plan.parameters);
  for (const graph::Region& region : plan.graph.regions)
    for (const graph::Op& op : region.ops)
      ops::row_of(op.kind).scratch(plan.graph, op, plan.spec, plan.parameters, plan.attention);
}

/// Sizes the plan's tensors and lays them out.
void place(Plan& plan) {
  size_tensors(plan);
  plan.layout = lay_out(plan.graph, plan.schedule, plan.spec, plan.parameters, plan.most_micro_batches());
}

/// Leaves out those of attention's backward passes that do not fit.
void fit_attention(Plan& plan) {
  while (!fits_budget(plan) && plan.attention.leave_out_largest()) place(plan);
}

/// Lowers and lays out, with those of attention's backward passes that fit.
Plan laid_out(const spec::Spec& spec, const std::vector<LayerKind>& kinds, passes::Choice choice,
              const devices::Device& device) {
  Plan plan;
  plan.spec = spec;
  plan.choice = std::move(choice);
  plan.device = device;
  plan.graph = passes::lower(spec, kinds, plan.choice);
  plan.schedule = make_schedule(plan.graph, spec.parallel.shard);
  plan.parameters = lay_out_parameters(plan.graph, spec);
  plan.process_bytes = process_bytes(plan);
  if (spec.target.kind == spec::TargetKind::cuda) plan.attention = ops::choose_attention(plan.graph, spec);
  place(plan);
  fit_attention(plan);
  return plan;
}

/// Returns every set of ops that memory.recompute can name, the empty one first.
std::vector<RecomputeGroups> all_sets(const spec::Spec& spec) {
  std::vector<RecomputeGroups> sets;
  RecomputeGroups named = graph::kRecomputeAll & ~static_cast<RecomputeGroups>(graph::RecomputeGroup::rest);
  // Without a norm of it no layer keeps down_proj's result.
  if (!spec.model.norms_after()) named &= ~static_cast<RecomputeGroups>(graph::RecomputeGroup::down);
  for (RecomputeGroups groups = 0; groups <= named; ++groups) sets.push_back(groups);
  sets.push_back(graph::kRecomputeAll);
  return sets;
}

/// Returns the bytes by which attention's largest workspace is above the one that is left without larger ones.
std::size_t avoidable_workspace(ops::AttentionChoices choices) {
  const auto largest = [&] {
    std::size_t most = 0;
    for (const ops::AttentionChoice& choice : choices.list) most = std::max(most, choice.workspace_bytes());
    return most;
  };
  const std::size_t all = largest();
  while (choices.leave_out_largest()) continue;
  return all - largest();
}

/// Returns the seconds of number `rank` (from 0) of the alternatives, by time.
double ranked(const std::vector<Alternative>& alternatives, std::size_t rank) {
  std::vector<double> seconds;
  for (const Alternative& alternative : alternatives) seconds.push_back(alternative.seconds);
  std::ranges::nth_element(seconds, seconds.begin() + static_cast<std::ptrdiff_t>(rank));
  return seconds[rank];
}

}  // namespace

bool fits_budget(const Plan& plan) { return plan.needed_bytes() <= static_cast<std::size_t>(plan.spec.memory.budget); }

std::vector<Shard> possible_shards(const spec::Spec& spec) {
  std::vector<Shard> shards = {Shard::none, Shard::optimizer};
  const bool whole = spec.audit.compute == spec::AuditCompute::forward;  // E0322
  if (!whole || spec.master == spec::Masters::fp32) shards.push_back(Shard::gradients);
  if (!whole) shards.push_back(Shard::parameters);
  return shards;
}

std::vector<std::int64_t> micro_batch_sizes(std::int64_t sequences) {
  std::vector<std::int64_t> result;
  for (std::int64_t d = 1; d * d <= sequences; ++d)
    if (sequences % d == 0) {
      result.push_back(d);
      if (d != sequences / d) result.push_back(sequences / d);
    }
  std::ranges::sort(result, std::greater{});
  return result;
}

Search::Search(const spec::Spec& spec)
    : spec_(spec), kinds_(graph::kinds_of(spec)), device_(devices::find(spec)), wish_(passes::recompute_of(spec)) {
  for (const Shard shard : shard_choices(spec))
    for (const std::int64_t micro_batch : micro_batch_choices(spec))
      for (const bool keep : {true, false})
        for (const std::int64_t chunk : chunk_choices(spec, micro_batch * spec.batch.sequence_length))
          if (!keep || may_keep_rounded_weights(shard, micro_batch))
            candidates_.push_back(
                {.shard = shard, .micro_batch = micro_batch, .loss_chunk = chunk, .keep_rounded_weights = keep});
  if (candidates_.empty())
    throw Failure(Exit::spec, fmt::format("memory.loss_chunk {} does not divide the rows of any micro-batch of "
                                          "batch.tokens {}. Write a divisor of batch.sequence_length ({}), or auto",
                                          spec.memory.loss_chunk, spec.batch.tokens, spec.batch.sequence_length));
}

bool Search::may_keep_rounded_weights(Shard shard, std::int64_t micro_batch) const {
  // Ranks that share the weights gather them anew in each pass, and have no memory for all of them.
  if (!spec_.has_fp8_products() || is_sharded(Use::copies, shard)) return false;
  // Codes with a scale a row are worth it for one micro-batch too: a kernel writes both layouts and reads a weight
  // once.
  const bool row_scales = spec_.matmul == spec::Matmul::fp8 || spec_.matmul == spec::Matmul::fp8_full;
  if (row_scales && spec::multiplies_codes(spec_)) return true;
  return std::max(spec_.batch.tokens, spec_.phase.most_tokens) / spec_.batch.sequence_length / micro_batch >
         spec_.parallel.world_size;
}

Plan Search::lay_out(const Candidate& candidate, const std::vector<RecomputeGroups>& recompute) const {
  return lay_out(candidate, recompute, spec_.memory.budget);
}

Plan Search::lay_out(const Candidate& candidate, const std::vector<RecomputeGroups>& recompute,
                     std::int64_t budget) const {
  spec::Spec spec = spec_;
  spec.parallel.shard = candidate.shard;
  spec.memory.budget = budget;
  return laid_out(spec, kinds_,
                  {candidate.micro_batch, candidate.loss_chunk, recompute, candidate.keep_rounded_weights}, device_);
}

Plan Search::with_launches(Plan plan) const {
  list_work(plan);
  plan.cost.time = step_time(plan);
  return plan;
}

void Search::assess(Candidate& candidate) const {
  // With recomputation a pass of attention that has no room here may have it, and take less time than the others.
  Plan plan = with_launches(lay_out(candidate, wish_, std::numeric_limits<std::int64_t>::max()));
  candidate.seconds = plan.cost.time.seconds;
  plan.spec.memory.budget = spec_.memory.budget;
  place(plan);
  fit_attention(plan);
  candidate.bytes = plan.needed_bytes();
  candidate.assessed = true;
  if (!recompute_is_open()) return;
  RecomputeProblem& rest = candidate.rest;
  rest = {.kinds = {}, .fixed = plan.needed_bytes(), .bound = 0, .budget = 0};
  rest.fixed -= plan.layout.transient_bytes;
  for (std::size_t r = 0; r < plan.graph.regions.size(); ++r) {
    const graph::Region& region = plan.graph.regions[r];
    if (region.block != graph::Block::layer) rest.bound = std::max(rest.bound, plan.layout.region_bounds[r]);
    rest.fixed -= plan.layout.region_kept[r] * static_cast<std::size_t>(plan.graph.layers_of(region));
  }
  rest.budget = static_cast<std::size_t>(spec_.memory.budget);
}

/// Returns the costs of a layer of each kind with each set of recomputed ops. Lowers all of them at once, as a model
/// with one layer of each. `least`: with the smallest workspaces of attention.
const LayerCosts& Search::costs(const Candidate& candidate, bool least) {
  const auto [found, is_new] =
      known_.try_emplace({candidate.micro_batch, candidate.shard, candidate.keep_rounded_weights, least}, LayerCosts());
  LayerCosts& costs = found->second;
  if (!is_new) return costs;
  std::vector<LayerKind> kinds;
  std::vector<RecomputeGroups> recompute;
  for (const LayerKind& kind : graph::distinct(kinds_))
    for (const RecomputeGroups groups : all_sets(spec_)) {
      kinds.push_back(kind);
      recompute.push_back(groups);
    }
  spec::Spec spec = spec_;
  spec.parallel.shard = candidate.shard;
  spec.model.num_hidden_layers = static_cast<std::int64_t>(kinds.size());
  spec.memory.budget = std::numeric_limits<std::int64_t>::max();
  Plan plan = laid_out(
      spec, kinds, {candidate.micro_batch, candidate.loss_chunk, recompute, candidate.keep_rounded_weights}, device_);
  if (least) {
    while (plan.attention.leave_out_largest()) continue;
    place(plan);
  }
  costs.avoidable_workspace = avoidable_workspace(plan.attention);
  costs.kinds = options_of(std::move(plan));
  return costs;
}

/// Returns the costs of the layers of a plan with one of each kind and set.
LayerOptions Search::options_of(Plan plan) const {
  const std::vector<RecomputeGroups> sets = all_sets(spec_);
  LayerOptions known;
  for (const LayerKind& kind : graph::distinct(kinds_)) {
    known.push_back({.layers = std::ranges::count(kinds_, kind), .options = {}});
    for (const RecomputeGroups groups : sets) known.back().options.push_back({.groups = groups});
  }
  list_work(plan);
  const std::vector<double> seconds = region_seconds(plan);
  for (std::size_t r = 0; r < plan.graph.regions.size(); ++r) {
    const graph::Region& region = plan.graph.regions[r];
    if (region.block != graph::Block::layer || region.variant == graph::kAllVariants ||
        !(region.is_forward() || region.is_backward()))
      continue;
    const auto variant = static_cast<std::size_t>(region.variant);  // each layer has its own
    LayerOption& option = known[variant / sets.size()].options[variant % sets.size()];
    option.kept += plan.layout.region_kept[r];
    option.bound = std::max(option.bound, plan.layout.region_bounds[r]);
    option.seconds += seconds[r];
  }
  return known;
}

RecomputeProblem Search::problem(const Candidate& candidate, const LayerCosts& costs) const {
  RecomputeProblem problem = candidate.rest;
  problem.kinds = costs.kinds;
  return problem;
}

/// Returns the solution's choice for each layer, in the order of the layers.
std::vector<RecomputeGroups> Search::by_layer(const RecomputeSolution& solution) const {
  const std::vector<LayerKind> kinds = graph::distinct(kinds_);
  std::vector<std::size_t> taken(kinds.size(), 0);
  std::vector<RecomputeGroups> layers;
  for (const LayerKind& kind : kinds_) {
    const auto k = static_cast<std::size_t>(std::ranges::find(kinds, kind) - kinds.begin());
    layers.push_back(solution.layers[k][taken[k]++]);
  }
  return layers;
}

/// Returns the candidate with the fastest recomputation that fits; nothing if none fits.
std::optional<Plan> Search::solved(const Candidate& candidate) {
  const auto budget = static_cast<std::size_t>(spec_.memory.budget);
  if (!recompute_is_open()) return {};
  // Layers that keep nothing would not fit: most passes of a large model are refused before their options are lowered.
  if (candidate.rest.fixed + candidate.rest.bound > budget) return {};
  std::optional<Plan> best;
  double limit = std::numeric_limits<double>::infinity();  // of the layers' seconds
  // Tries the fastest choice, then faster ones than `limit` with fewer bytes. Returns whether packing took more than
  // the bound that the solver has counted.
  const auto search = [&](RecomputeProblem open, int tries, auto less) {
    for (int i = 0; i < tries; ++i) {
      const RecomputeSolution solution = solve(open);
      if (!solution.fits || solution.seconds >= limit) return i > 0;
      Plan plan = lay_out(candidate, by_layer(solution));
      if (plan.needed_bytes() <= budget) {
        best = std::move(plan);
        limit = solution.seconds;
        return i > 0;
      }
      open.budget = less(open.budget, solution.bytes, plan.needed_bytes() - budget);
    }
    return true;
  };
  const auto search_all = [&](const RecomputeProblem& open) {
    // Those that leave room for the excess, then the next ones, which may have less of it.
    const auto by_excess = [](std::size_t room, std::size_t, std::size_t excess) {
      return room - std::min(room, excess);
    };
    const auto by_choice = [](std::size_t, std::size_t bytes, std::size_t) { return bytes - 1; };
    if (search(open, std::numeric_limits<int>::max(), by_excess)) search(open, kMostTries, by_choice);
  };
  const LayerCosts& fastest = costs(candidate, false);
  RecomputeProblem open = problem(candidate, fastest);
  search_all(open);
  limit *= 1 - kWorthAWay;
  if (fastest.avoidable_workspace) {
    // Passes of attention with smaller workspaces give their bytes to the layers, and take no less time.
    open.budget += fastest.avoidable_workspace;
    if (least_seconds(open) < limit) search_all(problem(candidate, costs(candidate, true)));
  }
  if (!best)
    if (Plan plan = smallest_of(candidate); plan.needed_bytes() <= budget) best = std::move(plan);
  return best;
}

/// Returns the candidate with the recomputation of fewest bytes: the solver's, or all, whose packing may take less.
Plan Search::smallest_of(const Candidate& candidate) {
  if (!recompute_is_open()) return lay_out(candidate, wish_);
  const bool avoidable = costs(candidate, false).avoidable_workspace > 0;
  const RecomputeProblem open = problem(candidate, costs(candidate, avoidable));
  Plan solved = lay_out(candidate, by_layer(smallest(open))),
       all = lay_out(candidate, std::vector<RecomputeGroups>(wish_.size(), graph::kRecomputeAll));
  return all.needed_bytes() < solved.needed_bytes() ? std::move(all) : std::move(solved);
}

/// Returns the fastest plan of a candidate that fits; nothing if none fits.
std::optional<Plan> Search::fitting(const Candidate& candidate) {
  std::optional<Plan> plan;
  if (candidate.bytes <= static_cast<std::size_t>(spec_.memory.budget)) {
    plan = with_launches(lay_out(candidate, wish_));
    if (plan->cost.time.seconds <= candidate.seconds) return plan;
  }
  std::optional<Plan> other = solved(candidate);
  if (other) other = with_launches(std::move(*other));
  const bool faster = other && (!plan || other->cost.time.seconds < plan->cost.time.seconds);
  return faster ? std::move(other) : std::move(plan);
}

std::optional<Plan> Search::best(std::size_t alternatives) {
  // A smaller chunk of the same pass reads the head's weight more often, and a pass that does not keep rounded weights
  // rounds them again: these take no less time than the first one.
  const Candidate* first = nullptr;
  for (Candidate& candidate : candidates_) {
    if (first && first->is_pass_of(candidate)) {
      candidate.seconds = first->seconds;
      continue;
    }
    assess(candidate);
    first = &candidate;
  }
  std::ranges::stable_sort(candidates_, {}, &Candidate::seconds);
  std::vector<Plan> found;          // the fastest so far
  std::vector<Alternative> others;  // and the fastest of each pass
  std::vector<Candidate> passes;    // passes that have one
  for (Candidate& candidate : candidates_) {
    // Recomputation adds time: later candidates cannot be faster.
    if (others.size() > alternatives && candidate.seconds >= ranked(others, alternatives)) break;
    const auto pass = std::ranges::find_if(passes, [&](const Candidate& p) { return p.is_pass_of(candidate); });
    const auto known = static_cast<std::size_t>(pass - passes.begin());
    // With a smaller chunk, or without rounded weights that are kept, a pass may need less recomputation.
    if (known < passes.size() && candidate.seconds >= others[known].seconds) continue;
    if (!candidate.assessed) assess(candidate);
    std::optional<Plan> plan = fitting(candidate);
    if (!plan || (known < passes.size() && plan->cost.time.seconds >= others[known].seconds)) continue;
    passes.resize(std::max(passes.size(), known + 1));
    others.resize(passes.size());
    passes[known] = candidate;
    others[known] = {chosen_spec(*plan), plan->cost.time.seconds, plan->layout.bytes};
    if (found.empty() || plan->cost.time.seconds < found[0].cost.time.seconds) found.assign(1, std::move(*plan));
  }
  if (found.empty()) return {};
  std::ranges::stable_sort(others, {}, &Alternative::seconds);
  others.erase(others.begin());
  others.resize(std::min(others.size(), alternatives));
  found[0].alternatives = std::move(others);
  return std::move(found[0]);
}

Plan Search::least() {
  std::vector<Plan> found;
  for (Candidate& candidate : candidates_) {
    if (!candidate.assessed) assess(candidate);
    Plan plan = smallest_of(candidate);
    if (found.empty() || plan.needed_bytes() < found[0].needed_bytes()) found.assign(1, std::move(plan));
  }
  return with_launches(std::move(found[0]));
}

bool Search::fits_somehow() {
  const auto fits_with = [this](const std::vector<RecomputeGroups>& recompute) {
    return std::ranges::any_of(candidates_,
                               [&](const Candidate& candidate) { return fits_budget(lay_out(candidate, recompute)); });
  };
  if (fits_with(wish_)) return true;
  if (!recompute_is_open()) return false;
  if (fits_with(std::vector<RecomputeGroups>(wish_.size(), graph::kRecomputeAll))) return true;
  return std::ranges::any_of(candidates_, [this](Candidate& candidate) {
    assess(candidate);
    return solved(candidate).has_value();
  });
}

}  // namespace llmc::plan
