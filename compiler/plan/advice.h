// Computes the largest values that fit, and the changes of the spec that make a step faster.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"
#include "spec/values.h"

namespace llmc::plan {

/// The largest value of one key with which a run fits memory.budget.
struct Limit {
  std::int64_t as_chosen = 0;                   // with the plan's recomputation
  std::optional<std::int64_t> recomputing_all;  // with every layer recomputed; nothing if the spec fixes recompute
  std::int64_t to_within = 1;                   // as_chosen plus this does not fit; 0: no larger value was tried
  std::int64_t all_to_within = 1;               // the same for recomputing_all
  friend bool operator==(const Limit&, const Limit&) = default;
};

struct Limits {
  Limit micro_batch;      // sequences of batch.sequence_length tokens
  Limit sequence_length;  // tokens, one sequence per pass
};

/// Finds the limits by laying out, with loss_chunk: auto. Each rank then runs one pass per step.
Limits limits(const Plan& plan);

/// Keys with other values, and the gains of the plan that they give.
struct Hint {
  std::vector<spec::Change> changes;
  double seconds = 0;           // saved per step
  std::int64_t bytes = 0;       // of the arena, more than the plan's
  std::int64_t parameters = 0;  // more than the plan's
};

/// Returns changes that were planned and reduce a step's predicted time by at least half a percent, largest gain first.
/// They change neither the data nor the length of training; those of model.* change the model, those of precision.* the
/// compute types.
std::vector<Hint> hints(const Plan& plan);

}  // namespace llmc::plan
