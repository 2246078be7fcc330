// What else a run could be: the most that fits, and changes of its spec that would make a step faster.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"
#include "spec/values.h"

namespace llmc::plan {

/// The largest value of one key with which a run fits memory.budget.
struct Limit {
  std::int64_t as_chosen = 0;        // with the recomputation of the plan
  std::int64_t recomputing_all = 0;  // with every layer computed again; as_chosen where the spec fixes memory.recompute
  std::int64_t to_within = 1;        // what is so much larger than as_chosen does not fit; 0: nothing was tried
  std::int64_t all_to_within = 1;    // the same of recomputing_all
  friend bool operator==(const Limit&, const Limit&) = default;
};

struct Limits {
  Limit micro_batch;      // sequences of batch.sequence_length tokens
  Limit sequence_length;  // tokens, one sequence a pass
};

/// Found by laying out, with loss_chunk: auto. A step has then one pass on each rank.
Limits limits(const Plan& plan);

/// Keys with other values, and the plan that they give.
struct Hint {
  std::vector<spec::Change> changes;
  double seconds = 0;           // less than the plan's, a step
  std::int64_t bytes = 0;       // of the arena, more than the plan's
  std::int64_t parameters = 0;  // more than the plan's
};

/// Changes that were planned, and take at least half a percent off a step's predicted time: the one that takes off most
/// first. None changes what is trained on or for how long; those of model.* change the model, those of precision.*
/// what is computed in.
std::vector<Hint> hints(const Plan& plan);

}  // namespace llmc::plan
