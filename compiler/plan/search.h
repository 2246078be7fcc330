// Finds the fastest plan that fits memory.budget among the choices that a spec leaves open.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "compiler/plan/plan.h"
#include "compiler/plan/recompute_solver.h"

namespace llmc::plan {

/// Of each kind.
using LayerOptions = std::vector<KindOfLayers>;

struct LayerCosts {
  LayerOptions kinds;
  std::size_t avoidable_workspace = 0;  // bytes by which attention's is above the smallest
};

/// Whether the arena, and on a CPU the process's other memory too, are within memory.budget.
bool fits_budget(const Plan& plan);

/// Returns the possible values of parallel.shard, least sharding first. Weights are excluded if audit.compute: forward
/// reads all of them (E0322).
std::vector<Shard> possible_shards(const spec::Spec& spec);

/// Returns the divisors of `sequences`, largest first: the possible micro-batches, in sequences.
std::vector<std::int64_t> micro_batch_sizes(std::int64_t sequences);

/// Searches over micro-batch, loss chunk, recomputation of each layer and sharding: the spec's value of each, or all
/// values of `auto`. Micro-batches, chunks and shardings are enumerated; recomputation is solved for each
/// (recompute_solver.h).
class Search {
 public:
  /// Throws Failure(spec) if target.device is unknown, or if no micro-batch has whole loss chunks.
  explicit Search(const spec::Spec& spec);

  /// Returns the plan with the least predicted time of those that fit, with its launches and times, and the fastest
  /// plans of at most `alternatives` other passes. Nothing if none fits.
  std::optional<Plan> best(std::size_t alternatives);

  /// Returns the plan of fewest bytes, with its launches and times.
  Plan least();

  /// Whether any plan fits.
  bool fits_somehow();

 private:
  struct Candidate {
    Shard shard = Shard::none;
    std::int64_t micro_batch = 0, loss_chunk = 0;
    bool keep_rounded_weights = false;
    bool assessed = false;  // if false, `seconds` is a lower bound and the fields below are not set
    // Of a step, without recomputation or with the one that the spec fixes, and with the fastest passes of attention:
    // no plan takes less time, but for what recomputing saves with fp8_full, whose kernels then write codes transposed.
    double seconds = 0;
    std::size_t bytes = 0;       // of the arena with the same recomputation
    RecomputeProblem rest = {};  // only its bytes outside of the layers; `kinds` is empty

    bool is_pass_of(const Candidate& other) const { return shard == other.shard && micro_batch == other.micro_batch; }
  };

  /// Whether the passes of a step could share rounded weights.
  bool may_keep_rounded_weights(Shard shard, std::int64_t micro_batch) const;
  bool recompute_is_open() const { return spec_.memory.recompute.kind == spec::Recompute::Kind::automatic; }
  Plan lay_out(const Candidate& candidate, const std::vector<graph::RecomputeGroups>& recompute) const;
  Plan lay_out(const Candidate& candidate, const std::vector<graph::RecomputeGroups>& recompute,
               std::int64_t budget) const;
  Plan with_launches(Plan plan) const;
  void assess(Candidate& candidate) const;
  std::optional<Plan> fitting(const Candidate& candidate);
  const LayerCosts& costs(const Candidate& candidate, bool least);
  LayerOptions options_of(Plan plan) const;
  RecomputeProblem problem(const Candidate& candidate, const LayerCosts& costs) const;
  std::vector<graph::RecomputeGroups> by_layer(const RecomputeSolution& solution) const;
  std::optional<Plan> solved(const Candidate& candidate);
  Plan smallest_of(const Candidate& candidate);

  const spec::Spec spec_;
  const std::vector<graph::LayerKind> kinds_;  // of each layer
  const devices::Device device_;
  const std::vector<graph::RecomputeGroups> wish_;
  std::vector<Candidate> candidates_;                                        // of a pass, the one of least time first
  std::map<std::tuple<std::int64_t, Shard, bool, bool>, LayerCosts> known_;  // of a micro-batch: costs()
};

}  // namespace llmc::plan
